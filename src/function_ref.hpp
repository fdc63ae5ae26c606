// A reference to a callback that is used during one call. Functions of src/ take lambdas: in hot
// loops as a template parameter, which the compiler can inline, and as this class elsewhere.
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

// Refers to any callable, and neither copies nor owns it. The callable must live longer. It is two
// pointers without a destructor, so that a longjmp may pass over it. std::function would not do: it
// allocates memory and throws exceptions.
template <typename Result, typename... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  // Not explicit, so that a lambda converts by itself. The requires clause keeps this from hiding
  // the copy constructor.
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
