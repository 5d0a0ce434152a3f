/// What a machine does in each state, by the tag of the state's case.
@usableFromInline
final class StateTable<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>: Sendable
{
  @usableFromInline let whens: [When<State, Event, Output>]
  @usableFromInline let byTag: [[When<State, Event, Output>]]
  @usableFromInline let eventLayout: EnumLayout

  @usableFromInline
  init(_ whens: [When<State, Event, Output>]) {
    precondition(
      TypeMetadata(Event.self).isEnum || whens.allSatisfy { $0.transitions == nil },
      "\(Event.self) is not an enum: only enum cases can stand in the machine language.")
    self.whens = whens
    let count = EnumLayout.of(State.self).cases.count
    byTag = (0..<count).map { tag in whens.filter { $0.tags.contains(tag) } }
    eventLayout = EnumLayout.of(Event.self)
  }

  /// Calls `body` for each `When` of the state until it says that it is done.
  @inlinable
  func visit(_ state: UnsafePointer<State>, _ body: (When<State, Event, Output>) -> Bool) {
    guard !byTag.isEmpty else { return }
    let whens = byTag[TypeMetadata(State.self).tag(of: state)]
    for index in whens.indices where body(whens[index]) { return }
  }

  @inlinable
  func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    withUnsafePointer(to: state) { state in
      withUnsafePointer(to: event) { event in
        withUnsafeTemporaryAllocation(of: State.self, capacity: 1) { next in
          reduce(state, event, next.baseAddress!)
        }
      }
    }
  }

  @inlinable
  func reduce(
    _ state: UnsafePointer<State>, _ event: UnsafePointer<Event>,
    _ next: UnsafeMutablePointer<State>
  ) -> Reduction<State> {
    let metadata = TypeMetadata(Event.self)
    guard metadata.isEnum else { return .refused(.noTransition) }
    var context = MatchContext(
      status: .noTransition, stateType: State.self, eventType: Event.self, event: event,
      tag: metadata.tag(of: event), layout: eventLayout, next: next)
    withUnsafeMutablePointer(to: &context) { context in
      MatchThread.with(context) {
        visit(state) { when in
          when.transitions?(state)
          return !context.pointee.isOpen
        }
      }
    }
    switch context.status {
    case .noTransition, .listing: return .refused(.noTransition)
    case .refusedByGuard: return .refused(.guard)
    case .matched: return .next(next.move())
    case .suspended:
      let suspension = unsafeDowncast(context.suspension!, to: Suspension<State>.self)
      return .suspended { await suspension.run().state }
    }
  }

  @inlinable
  func output(_ state: State) -> Output? {
    withUnsafePointer(to: state) { state in
      var found: Output?
      visit(state) { when in
        found = when.output?(state)
        return found != nil
      }
      return found
    }
  }
}
