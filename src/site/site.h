// Every path, tool, unit, port and default of the product in one place. Data only.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace site {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

// --- files and folders
inline constexpr std::string_view config_file = "/etc/gpu-prolog.toml";
inline constexpr std::string_view run_dir = "/run/gpu-prolog";
inline constexpr std::string_view lib_dir = "/var/lib/gpu-prolog";
inline constexpr std::string_view imex_lock = "/run/gpu-prolog/imex.lock";
inline constexpr std::string_view imex_state = "/run/gpu-prolog/imex.json";
inline constexpr std::string_view imex_log_file = "/var/log/nvidia-imex-prolog.log";
inline constexpr std::string_view imex_config = "/etc/nvidia-imex/config.cfg";
inline constexpr std::string_view imex_nodes_config = "/etc/nvidia-imex/nodes_config.cfg";
inline constexpr std::string_view imex_persist = "/var/run/nvidia-imex/persist.dat";
inline constexpr std::string_view channel_dir = "/dev/nvidia-caps-imex-channels";
inline constexpr std::string_view channel0 = "/dev/nvidia-caps-imex-channels/channel0";
inline constexpr std::string_view channel_driver = "nvidia-caps-imex-channels";  // exact name in /proc/devices
inline constexpr std::string_view caps_driver = "nvidia-caps";                   // the same, of MIG
inline constexpr std::string_view proc_devices = "/proc/devices";
inline constexpr std::string_view dmi_product_name = "/sys/class/dmi/id/product_name";
inline constexpr std::string_view boot_id = "/proc/sys/kernel/random/boot_id";
inline constexpr std::array<std::string_view, 2> slurm_confs{"/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf"};
inline constexpr std::string_view slurmd_spool_dir = "/var/spool/slurmd";
inline constexpr std::string_view mig_status_run = "/run/gpu-prolog/mig-setup.json";
inline constexpr std::string_view mig_status_lib = "/var/lib/gpu-prolog/mig-setup.json";
inline constexpr std::string_view mig_reboot_marker = "/var/lib/gpu-prolog/mig-reboot.json";
inline constexpr std::string_view mig_lock = "/run/gpu-prolog/mig.lock";
inline constexpr std::string_view cloud_instance_id = "/var/lib/cloud/data/instance-id";
inline constexpr std::string_view dmi_board_asset_tag =
    "/sys/class/dmi/id/board_asset_tag";  // EC2 puts the instance id here
inline constexpr std::string_view mig_minors = "/proc/driver/nvidia-caps/mig-minors";
inline constexpr std::string_view caps_dir = "/dev/nvidia-caps";
inline constexpr std::string_view mig_log_file = "/var/log/gpu-prolog-mig.log";
inline constexpr std::string_view dev_log = "/dev/log";

// --- syslog tags
inline constexpr std::string_view imex_syslog_tag =
    "91_nvidia_imex_prolog";  // the published script's, so that filters go on working
inline constexpr std::string_view mig_syslog_tag = "gpu-prolog-mig";

// --- tools, by absolute path
inline constexpr std::array<std::string_view, 2> systemctl{"/usr/bin/systemctl", "/bin/systemctl"};
inline constexpr std::array<std::string_view, 1> imex_ctl{"/usr/bin/nvidia-imex-ctl"};
inline constexpr std::array<std::string_view, 1> imex_daemon{"/usr/bin/nvidia-imex"};
inline constexpr std::array<std::string_view, 2> getent{"/usr/bin/getent", "/bin/getent"};
inline constexpr std::array<std::string_view, 1> nvidia_smi{"/usr/bin/nvidia-smi"};
inline constexpr std::array<std::string_view, 2> modprobe{"/usr/sbin/modprobe", "/sbin/modprobe"};
inline constexpr std::string_view pcs_slurm_dir = "/opt/aws/pcs/scheduler";  // slurm-VERSION/bin below it
inline constexpr std::array<std::string_view, 3> scontrol{"/opt/slurm/bin/scontrol", "/usr/local/bin/scontrol",
                                                          "/usr/bin/scontrol"};
inline constexpr std::string_view child_path = "/usr/sbin:/usr/bin:/sbin:/bin";

// --- IMEX
inline constexpr std::string_view imex_unit = "nvidia-imex";
inline constexpr unsigned imex_server_port = 50000;
inline constexpr unsigned imex_command_port = 50005;
inline constexpr std::size_t max_domain_nodes = 18;                                         // one UltraServer
inline constexpr std::size_t max_job_nodes = 65'536;                                        // Slurm's MAX_SLURM_NODES
inline constexpr std::array<std::string_view, 2> instance_types{"p6e-gb200", "p6e-gb300"};  // prefixes

// --- EC2
inline constexpr std::string_view imds_endpoint = "http://169.254.169.254";
inline constexpr std::string_view imds_endpoint_variable = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
inline constexpr milliseconds imds_connect_limit = 1s;
inline constexpr milliseconds imds_call_limit = 2s;
inline constexpr milliseconds imds_limit = 8s;
inline constexpr int imds_tries = 3;
inline constexpr std::size_t imds_body_cap = 4096;

// --- times of imex-prolog and imex-epilog
inline constexpr milliseconds deadline = 150s;
inline constexpr milliseconds deadline_margin = 5s;  // below PrologTimeout
inline constexpr milliseconds nohold_margin = 3s;    // below MessageTimeout + BatchStartTimeout
inline constexpr milliseconds cleanup_reserve = 20s;
inline constexpr milliseconds lock_reserve = 90s;  // the deadline less this is what a lock may cost
inline constexpr milliseconds exclusive_look = 5s;
inline constexpr milliseconds stop_limit = 15s;
inline constexpr milliseconds gone_limit = 5s;
inline constexpr milliseconds gone_least =
    2s;  // after a KILL, also where the run has no time left: a cut look proves nothing
inline constexpr milliseconds start_limit = 60s;
inline constexpr milliseconds cancel_limit = 5s;  // the stop that cancels a hanging start; then KILL
inline constexpr milliseconds ready_limit = 30s;
inline constexpr milliseconds domain_limit = 60s;
inline constexpr milliseconds settle = 3s;
inline constexpr milliseconds imex_ctl_limit = 5s;
inline constexpr milliseconds systemctl_limit = 10s;
inline constexpr milliseconds systemctl_least = 1s;  // of a call that cleans up after the run's own end
inline constexpr milliseconds getent_limit = 5s;
inline constexpr milliseconds scontrol_limit = 10s;
inline constexpr std::array<milliseconds, 2> scontrol_pauses{1s, 2s};  // between the tries
inline constexpr milliseconds term_to_kill = 2s;
inline constexpr milliseconds epilog_lock_limit = 20s;
inline constexpr milliseconds epilog_deadline = 60s;

// --- times of mig-setup
inline constexpr milliseconds driver_limit = 120s;
inline constexpr milliseconds modprobe_limit = 30s;
inline constexpr milliseconds smi_query_limit = 60s;
inline constexpr milliseconds mig_mode_limit = 60s;
inline constexpr milliseconds mig_mode_limit_per_gpu = 15s;
inline constexpr milliseconds mig_deadline = 600s;
inline constexpr milliseconds mig_least_deadline = 1s;
inline constexpr milliseconds mig_least_change = 10s;  // a change that would be cut shorter is not begun
inline constexpr milliseconds reboot_wait = 120s;

}  // namespace site
