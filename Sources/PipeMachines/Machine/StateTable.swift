import PipeSupport

/// The outputs and transitions of a machine's states, indexed by the tag of the state's case.
@usableFromInline
final class StateTable<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>:
  @unchecked Sendable  // Immutable after init.
{
  @usableFromInline let whens: [When<State, Event, Output>]
  @usableFromInline let eventLayout: EnumLayout
  // The rules of each case's `When`s, one case after the other. Reading the rules through pointers
  // avoids reference counting in each step.
  private let rules: UnsafeMutableBufferPointer<Rule>
  @usableFromInline let firstRulesByTag: UnsafeMutablePointer<UnsafePointer<Rule>>

  /// The output and the transitions of one `When`.
  @usableFromInline
  struct Rule {
    @usableFromInline let output: When<State, Event, Output>.Emit?
    @usableFromInline let transitions: When<State, Event, Output>.Step?
  }

  @usableFromInline
  init(_ whens: [When<State, Event, Output>]) {
    precondition(
      TypeMetadata(Event.self).isEnum || whens.allSatisfy { $0.transitions == nil },
      "\(Event.self) is not an enum: the machine language accepts only enum cases.")
    self.whens = whens
    eventLayout = EnumLayout.of(Event.self)
    let count = EnumLayout.of(State.self).cases.count
    let byTag = (0..<count).map { tag in whens.filter { $0.tags.contains(tag) } }
    rules = .allocate(capacity: max(1, byTag.reduce(0) { $0 + $1.count }))
    firstRulesByTag = .allocate(capacity: count + 1)
    var place = 0
    for (tag, whens) in byTag.enumerated() {
      (firstRulesByTag + tag).initialize(to: rules.baseAddress! + place)
      for when in whens {
        rules.initializeElement(
          at: place, to: Rule(output: when.output, transitions: when.transitions))
        place += 1
      }
    }
    (firstRulesByTag + count).initialize(to: rules.baseAddress! + place)
    stateCount = count
    ruleCount = place
  }

  deinit {
    rules.baseAddress!.deinitialize(count: ruleCount)
    rules.deallocate()
    firstRulesByTag.deallocate()
  }

  private let ruleCount: Int
  private let cachedSampleLists = Locked<[SampleList]?>(nil)
  @usableFromInline let stateCount: Int

  /// The transitions of each `When` with a transitions closure, read with sample values on first
  /// use.
  var sampleLists: [SampleList] {
    if let known = cachedSampleLists.withLock({ $0 }) { return known }
    // Read outside the lock, because reading runs the machine's closures.
    var lists: [SampleList] = []
    for (index, when) in whens.enumerated() {
      guard let transitions = when.list else { continue }
      let list = EventList()
      var hasSample = false
      list.list(State.self, Event.self) {
        hasSample = transitions()
        if !hasSample { list.recordSkippedBranch() }
      }
      lists.append(
        SampleList(
          whenIndex: index, entries: list.entries, timers: list.timers,
          isIncomplete: list.isIncomplete, hasSample: hasSample, mayHaveTimers: list.mayHaveTimers))
    }
    cachedSampleLists.withLock { [lists] in $0 = lists }
    return lists
  }

  /// Calls `body` for each `When` of the state until `body` returns `true`.
  @inlinable
  func visit(_ state: UnsafePointer<State>, _ body: (UnsafePointer<Rule>) -> Bool) {
    guard stateCount > 0 else { return }
    let tag = EnumCases<State>.tag(at: state)
    // A case with a higher tag first occurred in a value after the table was created. So no `When`
    // names such a case.
    if TypeReading.isReflective, tag >= stateCount { return }
    var rule = firstRulesByTag[tag]
    let end = firstRulesByTag[tag + 1]
    while rule < end, !body(rule) { rule += 1 }
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
      tag: EnumCases<Event>.tag(at: event), layout: eventLayout, nextState: next)
    withUnsafeMutablePointer(to: &context) { context in
      MatchThread.with(context) {
        visit(state) { rule in
          rule.pointee.transitions?(state)
          return !context.pointee.isUnanswered
        }
      }
    }
    switch context.status {
    case .noTransition, .listing, .listingTimers, .firing: return .refused(.noTransition)
    case .refusedByGuard: return .refused(.guard)
    case .matched: return .next(next.move())
    case .stayed: return stay(state, next.move())
    case .ignored: return .ignored
    case .suspended:
      let suspension = unsafeDowncast(
        context.suspension!.takeRetainedValue(), to: Suspension<State>.self)
      return suspend(state.pointee, suspension)
    }
  }

  // A separate function, so that `reduce` stays small: few steps are internal transitions.
  @inline(never)
  @usableFromInline
  func stay(_ state: UnsafePointer<State>, _ next: State) -> Reduction<State> {
    refusal(ofStay: state.pointee, next).map { .refused($0) } ?? .stays(next)
  }

  /// Returns the refusal of an internal transition that would leave the state or change its timers.
  /// Returns `nil` for any other internal transition.
  private func refusal(ofStay state: State, _ next: State) -> Refusal? {
    if let refusal = LeftStateError.refusal(from: state, to: next) { return refusal }
    return timers(in: state).timers == timers(in: next).timers
      ? nil : .thrown(by: ChangedTimersError())
  }

  @inline(never)
  @usableFromInline
  func suspend(_ state: State, _ suspension: Suspension<State>) -> Reduction<State> {
    .suspended(
      SuspendedTransition(
        within: suspension.limit,
        target: {
          let transition = try await suspension.run()
          if transition.isInternal,
            let refusal = self.refusal(ofStay: state, transition.state)
          {
            throw RefusedStep(refusal: refusal)
          }
          return TransitionTarget(transition.state, isInternal: transition.isInternal)
        }))
  }

  @inlinable
  func output(_ state: State) -> Output? {
    withUnsafePointer(to: state) { state in
      var found: Output?
      visit(state) { rule in
        guard let output = rule.pointee.output else { return false }
        found = output(state)
        return true
      }
      return found
    }
  }
}

/// The transitions of one `When`, read with sample values.
struct SampleList: Sendable {
  /// The index of the `When`.
  let whenIndex: Int
  let entries: [EventList.Entry]
  let timers: [ListedTimer]
  /// Whether a branch was not read, or no sample can be made of the state's values.
  let isIncomplete: Bool
  /// Whether a sample of the state's values can be made.
  let hasSample: Bool
  let mayHaveTimers: Bool

  var tags: Set<Int> { Set(entries.flatMap(\.tags)) }

  /// The tags of the events for which there is a transition.
  var transitionTags: Set<Int> { Set(entries.lazy.filter { !$0.isIgnored }.flatMap(\.tags)) }
}
