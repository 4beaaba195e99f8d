"""Which file of src/ may include which: the rule table is src/CMakeLists.txt itself (what a room links it may include)."""

import pathlib
import re

# Libraries that only some rooms may know; a room not named here gets at them through one that is.
LIBRARIES = {
    "curl/": {"host"},
    # flow makes the lines, host carries them to file, syslog and terminal.
    "spdlog/": {"host", "flow"},
    "CLI/": {"cli"},
    "yaml-cpp/": {"slurm", "mig"},
}
# Headers that mean system calls: only the host room makes them.
SYSTEM_HEADERS = re.compile(
    r"^(unistd\.h|fcntl\.h|spawn\.h|poll\.h|dirent\.h|signal\.h|csignal|netdb\.h|ifaddrs\.h|syslog\.h|pwd\.h|grp\.h|dlfcn\.h"
    r"|sched\.h|pthread\.h|thread|fstream|linux/.*|sys/(?!types\.h|sysmacros\.h).*)$"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def read_table(cmake_text):
    """room -> the rooms it may include (itself and all that it links, directly or not)."""
    links = {}
    for room, rest in re.findall(r"^add_room\((\w+)([^)]*)\)", cmake_text, re.M):
        links[room] = {word[3:] for word in rest.split() if word.startswith("gp_") and word != "gp_build_info"}
    # Data only, so any room may have it even where its library is not linked.
    links = {room: found | {"site"} for room, found in links.items()}

    def closure(room, seen):
        if room in seen:
            return seen
        seen.add(room)
        for other in links[room]:
            closure(other, seen)
        return seen

    return {room: closure(room, set()) for room in links}


def cycles(table):
    return sorted((a, b) for a in table for b in table[a] if a < b and a in table[b])


def violations(src):
    src = pathlib.Path(src)
    table = read_table((src / "CMakeLists.txt").read_text())
    found = [f"{a} and {b} link each other" for a, b in cycles(table)]
    for file in sorted(p for p in src.rglob("*") if p.suffix in {".h", ".cpp", ".hpp", ".cc", ".inc"}):
        parts = file.relative_to(src).parts
        room = parts[0] if len(parts) > 1 else "main"
        if room != "main" and room not in table:
            found.append(f"{'/'.join(parts)}: {room} is no room of src/CMakeLists.txt")
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            own, system = match.groups()
            where = f"{'/'.join(parts)}:{number}"
            if own:
                target = own.split("/")[0]
                if "/" not in own or not (src / own).is_file():
                    found.append(f'{where}: "{own}" is not a file of src/ named from src/')
                elif room != "main" and target not in table[room]:
                    found.append(f"{where}: {room} may not include {target}")
            else:
                if room not in ("host", "main") and SYSTEM_HEADERS.match(system):
                    found.append(f"{where}: <{system}>: only host makes system calls")
                for prefix, rooms in LIBRARIES.items():
                    if system.startswith(prefix) and room not in rooms:
                        found.append(f"{where}: <{system}>: only {', '.join(sorted(rooms))} may include it")
    return found


def root_entries_not_allowed(root):
    allowed = {"CMakeLists.txt", "src", "tests", "scripts", "docs", "README.md", "LICENSE", ".ci", ".gitignore",
               ".clang-format", ".clang-tidy"}
    return sorted(set(root) - allowed)
