// A callback for the time of one call. Every function of src/ that takes one takes a lambda, as a
// template parameter where it is called once a chunk or an item, and as this where it is not.
#ifndef BLOOMFILTER_FUNCTION_REF_HPP
#define BLOOMFILTER_FUNCTION_REF_HPP

#include "pg.hpp"

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace bloomfilter {

template <typename>
class FunctionRef;

// Refers to any callable, and neither copies nor owns it: two words, with no destructor, so that a
// longjmp may pass over it. std::function allocates, and throws. The callable must outlive it.
template <typename Result, typename... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  // Not explicit: a lambda is to convert by itself. What keeps it from hiding the copy constructor
  // is the requires clause.
  // NOLINTBEGIN(google-explicit-constructor, bugprone-forwarding-reference-overload)
  template <typename Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_invocable_r_v<Result, Callable &, Arguments...>) FunctionRef(Callable &&callable)
      : callable_(const_cast<void *>(static_cast<const void *>(std::addressof(callable)))),
        call_([](void *target, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Callable> *>(target))(
              std::forward<Arguments>(arguments)...);
        }) {}
  // NOLINTEND(google-explicit-constructor, bugprone-forwarding-reference-overload)

  Result operator()(Arguments... arguments) const {
    return call_(callable_, std::forward<Arguments>(arguments)...);
  }

 private:
  void *callable_;
  Result (*call_)(void *, Arguments...);
};

}  // namespace bloomfilter

#endif
