// EC2's instance metadata, version 2, as far as a prolog asks it: the token and the instance type.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "node.hpp"

namespace lab {

bool Imds::listen() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(80);
  inet_pton(AF_INET, "169.254.169.254", &where.sin_addr);
  return bind(listener_, reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0 && ::listen(listener_, 16) == 0;
}

std::vector<int> Imds::descriptors() const {
  std::vector<int> all{listener_};
  for (const auto& client : clients_) all.push_back(client.fd);
  return all;
}

namespace {

std::string response(int code, const std::string& reason, const std::string& body, const std::string& more) {
  return "HTTP/1.1 " + std::to_string(code) + " " + reason +
         "\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more +
         "Connection: keep-alive\r\n\r\n" + body;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string reply(const std::string& request) {
  const std::string head = request.substr(0, request.find("\r\n"));
  const std::string headers = lower(request);
  if (head.rfind("PUT /latest/api/token ", 0) == 0) {
    if (headers.find("x-aws-ec2-metadata-token-ttl-seconds:") == std::string::npos)
      return response(400, "Bad Request", "", "");
    return response(200, "OK", "TGFiVG9rZW4xMjM0NTY3ODkw", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 21600\r\n");
  }
  if (request.find("TGFiVG9rZW4xMjM0NTY3ODkw") == std::string::npos) return response(401, "Unauthorized", "", "");
  if (head.rfind("GET /latest/meta-data/instance-type ", 0) == 0) {
    return response(200, "OK", setting("/run/lab/node.conf", "instance_type", "p6e-gb200.36xlarge"), "");
  }
  return response(404, "Not Found", "<html><body>404</body></html>", "");
}

}  // namespace

void Imds::serve(int fd) {
  if (fd == listener_) {
    const int got = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (got >= 0) clients_.push_back({got, ""});
    return;
  }
  const auto client = std::find_if(clients_.begin(), clients_.end(), [fd](const Client& c) { return c.fd == fd; });
  if (client == clients_.end()) return;
  char buffer[4096];
  const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
  if (got <= 0 || client->in.size() > 65536) {
    close(fd);
    clients_.erase(client);
    return;
  }
  client->in.append(buffer, static_cast<std::size_t>(got));
  for (auto end = client->in.find("\r\n\r\n"); end != std::string::npos; end = client->in.find("\r\n\r\n")) {
    const std::string answer = reply(client->in.substr(0, end + 4));
    client->in.erase(0, end + 4);
    send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
  }
}

}  // namespace lab
