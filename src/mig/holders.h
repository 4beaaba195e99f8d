// Who keeps a GPU from changing: processes with its device files open, kernel modules on top of the driver, persistence
// mode. Only named, never ended. A process with the DCGM library holds caps files only and shows in no nvidia-smi list.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "host/files.h"
#include "mig/gpu.h"

namespace mig {

struct Holder {
  pid_t pid = 0;
  std::string program;             // base name of the executable, else the kernel's name of the process
  std::vector<std::string> files;  // /dev/nvidia0, /dev/nvidia-caps/nvidia-cap3
};

// Processes with /dev/nvidia0..., /dev/nvidia-caps/... open, but `self`. What cannot be read is passed over.
std::vector<Holder> find_holders(const host::Files& files, pid_t self);

// A driver's own service, which a change of mode can live with: persistence daemon, fabric manager, DCGM's engine,
// IMEX.
bool is_service(const Holder& holder);

// Modules that use the nvidia module: nvidia_drm holds the GPU although no process shows.
std::vector<std::string> module_holders(const host::Files& files);

// "dcgm (pid 812: /dev/nvidia0), module nvidia_drm, persistence mode on GPU 0"; "nobody that can be seen".
std::string show_holders(const std::vector<Holder>& holders, const std::vector<std::string>& modules,
                         const std::vector<Gpu>& gpus);

std::string show(const Holder& holder);

// Processes of slurmd or slurmstepd, told by their executable: "slurmd (pid 4711)". Looked at, never signalled.
std::vector<std::string> slurm_daemons(const host::Files& files, pid_t self);

// Does a process of this executable's name run?
bool runs(const host::Files& files, std::string_view program);

// NVIDIA display and 3D functions on the PCI bus: their bus ids.
std::vector<std::string> pci_gpus(const host::Files& files);

// NVSwitches on the PCI bus: boards with them need the Fabric Manager.
std::vector<std::string> pci_switches(const host::Files& files);

// Signs that this boot is over; empty where there is none. `systemctl` is not asked: at this stage it may wait for us.
std::string boot_finished(const host::Files& files);

}  // namespace mig
