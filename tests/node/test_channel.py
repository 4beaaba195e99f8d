"""The IMEX channel device."""

import os
import stat

import pytest

from expect import assert_channel, assert_done, assert_failed, assert_untouched
from node import CHANNEL, CHANNEL_DIR


@pytest.mark.aarch64
def test_without_a_major_number_the_driver_is_named(make_node):
    node = make_node(channel_major=None)
    assert_failed(node, node.prolog(), 5, "nvidia-caps-imex-channels")
    assert_untouched(node)


@pytest.mark.parametrize("major", ["92", "  9", "500"])
def test_a_padded_major_number_is_read(make_node, major):
    node = make_node(channel_major=major)
    assert_done(node, node.prolog(), channel=False)
    assert_channel(node, int(major))


def test_a_channel_that_is_right_is_left_as_it_is(node):
    node.sh(f"mkdir -m 755 {CHANNEL_DIR}; mknod -m 666 {CHANNEL} c 235 0")
    before = node.lstat(CHANNEL)
    assert_done(node, node.prolog())
    assert node.lstat(CHANNEL).st_ino == before.st_ino


WRONG = {
    "wrong major": f"mknod -m 666 {CHANNEL} c 234 0",
    "wrong minor": f"mknod -m 666 {CHANNEL} c 235 1",
    "block device": f"mknod -m 666 {CHANNEL} b 235 0",
    "plain file": f"echo x > {CHANNEL}",
    "wrong mode": f"mknod -m 600 {CHANNEL} c 235 0",
    "link": f"echo secret > /etc/secret; chmod 600 /etc/secret; ln -s /etc/secret {CHANNEL}",
    "dangling link": f"ln -s /etc/not-there {CHANNEL}",
    "link to a null device": f"ln -s /dev/null {CHANNEL}",
    "pipe": f"mkfifo {CHANNEL}",
    "empty folder, as container runtimes leave it": f"mkdir {CHANNEL}",
    "wrong mode of the folder": f"chmod 700 {CHANNEL_DIR}",
}


@pytest.mark.aarch64
@pytest.mark.parametrize("what", ["wrong major", "plain file"])
def test_a_wrong_channel_is_repaired_on_both_architectures(node, what):
    node.sh(f"mkdir -m 755 {CHANNEL_DIR}; {WRONG[what]}")
    assert_done(node, node.prolog())


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_channel_is_repaired(node, what):
    node.sh(f"mkdir -m 755 {CHANNEL_DIR}; {WRONG[what]}")
    assert_done(node, node.prolog())
    if what == "link":
        info = node.lstat("/etc/secret")
        assert stat.S_IMODE(info.st_mode) == 0o600 and node.read("/etc/secret") == "secret\n"
    assert not node.exists("/etc/not-there")
    assert stat.S_IMODE(node.lstat("/dev/null").st_mode) == 0o666


def test_a_folder_that_holds_something_is_not_removed_for_the_channel(node):
    node.write(f"{CHANNEL}/precious", "precious\n")
    assert_failed(node, node.prolog(), 5, CHANNEL, "folder", "not empty")
    assert node.read(f"{CHANNEL}/precious") == "precious\n" and os.listdir(node.path(CHANNEL_DIR)) == ["channel0"]


@pytest.mark.parametrize("umask", ["077", "027", "000"])
def test_the_mode_does_not_depend_on_the_umask(node, umask):
    assert_done(node, node.prolog(umask=umask))


def test_other_channels_are_left_alone(node):
    node.sh(f"mkdir -m 755 {CHANNEL_DIR}; mknod -m 600 {CHANNEL_DIR}/channel1 c 235 1")
    assert_done(node, node.prolog())
    info = node.lstat(f"{CHANNEL_DIR}/channel1")
    assert stat.S_IMODE(info.st_mode) == 0o600 and os.minor(info.st_rdev) == 1


def test_a_driver_that_does_not_answer_behind_its_major_is_a_warning(node):
    run = node.prolog()
    assert_done(node, run)
    assert any("channel" in text.lower() for _, _, text in node.log("WARN")), node.log_text()


@pytest.mark.parametrize("conf", ["SwitchType=switch/nvidia_imex", "switchtype = Switch/NVIDIA_IMEX   # comment", "include more.conf"])
def test_the_channel_is_left_alone_where_slurm_manages_it(node, conf):
    text = node.read("/etc/slurm/slurm.conf").replace("SwitchType=switch/none\n", "") + conf + "\n"
    node.write("/etc/slurm/slurm.conf", text)
    node.write("/etc/slurm/more.conf", "SwitchType=switch/nvidia_imex\n")
    node.sh(f"mkdir -m 700 {CHANNEL_DIR}; mknod -m 600 {CHANNEL} c 234 0")
    before = (node.lstat(CHANNEL), node.lstat(CHANNEL_DIR))
    assert_done(node, node.prolog(), channel=False)
    after = (node.lstat(CHANNEL), node.lstat(CHANNEL_DIR))
    assert [(info.st_ino, info.st_mode, info.st_rdev) for info in before] == [(info.st_ino, info.st_mode, info.st_rdev) for info in after]


@pytest.mark.parametrize("path", ["/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf"])
def test_without_slurm_conf_in_the_environment_the_known_places_are_read(node, path):
    node.remove("/etc/slurm/slurm.conf")
    node.write(path, "SwitchType=switch/nvidia_imex\n")
    run = node.prolog(env={"SLURM_CONF": None})
    assert_done(node, run, channel=False)
    assert not node.exists(CHANNEL)


def test_a_slurm_conf_of_another_place_in_the_environment_is_read(node):
    node.write("/srv/slurm.conf", "SwitchType=switch/nvidia_imex\n")
    assert_done(node, node.prolog(env={"SLURM_CONF": "/srv/slurm.conf"}), channel=False)
    assert not node.exists(CHANNEL)


def test_an_include_that_includes_itself_ends(node):
    node.write("/etc/slurm/slurm.conf", node.read("/etc/slurm/slurm.conf") + "Include slurm.conf\n")
    run = node.prolog(limit=20)
    assert run.code in (0, 2, 3), run


def test_a_folder_that_cannot_be_made_fails_here(node):
    node.write(CHANNEL_DIR, "a file where the folder should be")
    run = node.prolog()
    if run.code == 0:  # repairing it is as right
        assert_done(node, run)
    else:
        assert_failed(node, run, 5, CHANNEL_DIR)
