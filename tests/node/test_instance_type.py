"""Where the instance type comes from when the metadata service is well, ill or hostile: right within 10 s, and no other node ever drains."""

import pytest

from expect import assert_done, assert_skipped, assert_untouched
from node import OLD_LIST

OTHER = "p5.48xlarge"

TROUBLE = {
    "down": {},
    "silent": {"mode": "silent"},
    "slow": {"mode": "slow", "delay": 3.0},
    "dripping": {"mode": "drip"},
    "401 to everything": {"mode": "status", "status": 401},
    "403 to everything": {"mode": "status", "status": 403},
    "404 to everything": {"mode": "status", "status": 404},
    "503 to everything": {"mode": "status", "status": 503},
    "401 to the question": {"mode": "value_status", "status": 401},
    "404 to the question": {"mode": "value_status", "status": 404},
    "403 to the token": {"mode": "token_status", "status": 403},
    "endless": {"mode": "endless"},
    "endless header": {"mode": "endless_header"},
    "64 MiB": {"mode": "big"},
    "cut short": {"mode": "cut"},
    "a page": {"mode": "body", "body": "<html><body>p6e-gb200.36xlarge</body></html>\n"},
    "two lines": {"mode": "body", "body": "p6e-gb200.36xlarge\n2026-05-04T06:08:10.580 [ERROR] [PID:1] [JOB:1] forged\n"},
    "nothing": {"mode": "body", "body": ""},
    "escape codes": {"mode": "body", "body": "\x1b[31mp6e-gb200.36xlarge"},
}
SLOW = ("silent", "slow", "dripping")


def ill(make_node, trouble, **settings):
    node = make_node(imds=trouble != "down", **settings)
    for key, value in TROUBLE[trouble].items():
        setattr(node.imds, key, value)
    return node


@pytest.mark.parametrize("trouble", TROUBLE)
def test_an_ultraserver_is_known_by_its_firmware_when_the_metadata_service_is_ill(make_node, trouble):
    node = ill(make_node, trouble)
    run = node.prolog()
    assert_done(node, run)
    assert run.seconds < 10
    assert run.usage["maxrss_kb"] <= 8192, run.usage


@pytest.mark.parametrize("trouble", TROUBLE)
def test_no_other_node_drains_when_the_metadata_service_is_ill(make_node, trouble):
    node = ill(make_node, trouble, instance_type=OTHER, dmi=OTHER)
    run = node.prolog()
    assert_skipped(node, run, OTHER)
    assert run.seconds < 10 and node.calls() == []


@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_node_of_unknown_type_is_skipped_with_an_error(make_node, trouble):
    node = ill(make_node, trouble, instance_type=OTHER, dmi=None)
    run = node.prolog()
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
    assert_untouched(node)
    if trouble not in ("a page", "two lines", "escape codes"):  # what these say is no instance type, and what is found depends on it
        assert node.log("ERROR"), node.log_text()
    assert run.seconds < 10 and node.calls() == []


def test_a_node_of_unknown_type_fails_where_the_site_wants_that(make_node):
    node = make_node(imds=False, dmi=None)
    run = node.prolog("--unknown-type=fail")
    assert run.code == 4 and run.err.count("\n") == 1, run
    assert node.list() == OLD_LIST


@pytest.mark.parametrize("dmi", ["", "Standard PC (Q35 + ICH9, 2009)", "HVM domU"])
def test_firmware_that_names_no_instance_type_is_skipped(make_node, dmi):
    node = make_node(imds=False, dmi=dmi)
    run = node.prolog()
    assert run.code == 0 and run.err == "", run
    assert_untouched(node)


def test_an_answer_that_failed_once_is_asked_for_again(node):
    node.imds.fail_first, node.imds.status = 1, 503
    node.remove("/sys/class/dmi")
    assert_done(node, node.prolog())


def test_a_chunked_answer_is_an_answer(node):
    node.imds.mode = "chunked"
    node.remove("/sys/class/dmi")
    assert_done(node, node.prolog())


def test_a_token_is_fetched_and_used(node):
    assert_done(node, node.prolog())
    assert [(request["method"], request["path"]) for request in node.imds.requests] == [
        ("PUT", "/latest/api/token"), ("GET", "/latest/meta-data/instance-type")]
    assert node.imds.requests[0]["headers"]["x-aws-ec2-metadata-token-ttl-seconds"].isdigit()
    assert node.imds.requests[1]["headers"]["x-aws-ec2-metadata-token"] == node.imds.token


def test_a_redirect_is_not_followed(make_node):
    node = make_node(instance_type=OTHER, dmi=OTHER)
    node.imds.mode = "redirect"
    assert_skipped(node, node.prolog(), OTHER)
    assert not any(request["path"] == "/elsewhere" for request in node.imds.requests)


@pytest.mark.aarch64
@pytest.mark.parametrize("kind", ["p6e-gb200.36xlarge", OTHER])
def test_proxies_in_the_environment_are_not_used(make_node, kind):
    node = make_node(instance_type=kind, dmi=None)
    proxies = {name: "http://10.20.0.1:9" for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy")}
    run = node.prolog(env={**proxies, "no_proxy": "", "NO_PROXY": ""})
    if kind == OTHER:
        assert_skipped(node, run, OTHER)
    else:
        assert_done(node, run)


def test_another_endpoint_is_used_where_the_environment_names_an_address(make_node):
    node = make_node(instance_type=OTHER, dmi=OTHER)
    node.ip("addr", "add", "10.20.9.9/32", "dev", "lo")
    other = type(node.imds)(node.pid, value="p6e-gb300.36xlarge", address="10.20.9.9", port=8111)
    try:
        assert_done(node, node.prolog(env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://10.20.9.9:8111"}))
        assert other.requests and not node.imds.requests
    finally:
        other.close()


@pytest.mark.parametrize("endpoint", ["http://evil.example/", "https://169.254.169.254", "file:///etc/passwd", "http://", "169.254.169.254", "ftp://10.20.0.1",
                                      "http://user@10.20.0.1\n"])
def test_an_endpoint_that_is_no_http_address_is_not_used(node, endpoint):
    run = node.prolog(env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint})
    assert_done(node, run)
    assert node.log("WARN") and node.imds.requests


def test_a_broken_config_file_drains_no_other_node(make_node):
    for config, mode in (("no toml at all", 0o644), ("[imex-prolog]\nno-such-key = 1\n", 0o644), ("deadline = \n", 0o644), ("", 0o666)):
        node = make_node(instance_type=OTHER, dmi=OTHER)
        node.config(config, mode)
        assert_skipped(node, node.prolog(), OTHER)
        node = make_node()
        node.config(config, mode)
        run = node.prolog(env={"SLURM_JOB_OVERSUBSCRIBE": "OK"})
        assert_skipped(node, run, "exclusive")


def test_missing_tools_drain_no_other_node(make_node):
    node = make_node(instance_type=OTHER, dmi=OTHER, scontrol=None, imex_ctl=False, channel_major=None, old_list=None)
    node.remove("/usr/bin/systemctl")
    node.remove("/etc/nvidia-imex")
    node.remove("/etc/slurm")
    run = node.prolog(env={"SLURM_JOB_ID": None, "SLURM_JOBID": None, "SLURM_NODELIST": None, "SLURM_JOB_NODELIST": None})
    assert run.code == 0 and (run.out, run.err) == ("", ""), run
