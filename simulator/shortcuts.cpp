// SPDX-License-Identifier: Apache-2.0
// This program exports functions of the same names as SimGrid's and SMPI's, which are found before the library's own.
#include "shortcuts.h"

#include <dlfcn.h>
#include <smpi/mpi.h>

#include <functional>
#include <simgrid/simix.hpp>
#include <string_view>
#include <typeinfo>

namespace lanecast::simulator {
namespace {
bool at_once = false;  // of the one simulation that this program is
}
void post_at_once() { at_once = true; }
}  // namespace lanecast::simulator

namespace {

using simgrid::kernel::actor::SimcallObserver;

/// The head of a SimcallObserver, whose header SimGrid does not install.
struct Polymorphic {
  virtual ~Polymorphic() = default;
};

/// Does this call into SimGrid's kernel post a message?
bool posts(SimcallObserver* observer) {
  if (observer == nullptr) return false;
  const std::string_view type = typeid(*reinterpret_cast<Polymorphic*>(observer)).name();
  return type.ends_with("CommIsendSimcallE") || type.ends_with("CommIrecvSimcallE");
}

}  // namespace

/// An actor that calls the kernel is answered when all others that may run have run. To post a message answers no other
/// actor, and the kernel stands still while actors run, all in one thread: so it can be done while what belongs to the
/// rank is still in the processor's caches.
void simcall_run_answered(const std::function<void()>& code, SimcallObserver* observer) {
  using Call = void (*)(const std::function<void()>&, SimcallObserver*);
  static const auto after_the_others = reinterpret_cast<Call>(
      dlsym(RTLD_NEXT, "_Z20simcall_run_answeredRKSt8functionIFvvEEPN7simgrid6kernel5actor15SimcallObserverE"));
  if (lanecast::simulator::at_once && posts(observer))
    code();
  else
    after_the_others(code, observer);
}

/// SMPI numbers the messages of each pair of ranks and tag, in tables of texts that grow with the call, lest small
/// messages overtake large ones. Here all of a rank's messages wait in one queue, in order.
namespace simgrid::smpi {
class Comm {
 public:
  unsigned int get_sent_messages_count(int from, int to, int tag);
  void increment_sent_messages_count(int from, int to, int tag);
  unsigned int get_received_messages_count(int from, int to, int tag);
  void increment_received_messages_count(int from, int to, int tag);
};
unsigned int Comm::get_sent_messages_count(int /*from*/, int /*to*/, int /*tag*/) { return 0; }
void Comm::increment_sent_messages_count(int /*from*/, int /*to*/, int /*tag*/) {}
unsigned int Comm::get_received_messages_count(int /*from*/, int /*to*/, int /*tag*/) { return 0; }
void Comm::increment_received_messages_count(int /*from*/, int /*to*/, int /*tag*/) {}
}  // namespace simgrid::smpi

extern "C" {

/// SMPI times what a rank computes between two calls, by a system call at each end, for a simulation of computing that
/// is switched off here.
void xbt_os_threadtimer_start(void* /*timer*/) {}
void xbt_os_threadtimer_stop(void* /*timer*/) {}

}  // extern "C"
