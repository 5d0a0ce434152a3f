import PipeMachines
import Testing

private enum Page: MachineState, Equatable {
  case blank
  case written(String)
  case list([String])
}

private enum Edit: MachineEvent {
  case write(String)
  case append(byteCount: Int)
  case later(byteCount: Int)
  case clear
}

private func text(_ count: Int) -> String { String(repeating: "x", count: count) }

private func editor(_ initial: Page = .blank) -> StateMachine<Page, Edit, Never> {
  StateMachine(initial: initial, reduce: { edited($0, by: $1) })
}

private func edited(_ page: Page, by edit: Edit) -> Reduction<Page> {
  switch (page, edit) {
  case (_, .write(let text)): .next(.written(text))
  case (.list(let lines), .append(let count)): .next(.list(lines + [text(count)]))
  case (_, .append(let count)): .next(.list([text(count)]))
  case (_, .later(let count)):
    .suspended(SuspendedTransition(within: .seconds(1)) { .written(text(count)) })
  case (_, .clear): .next(.blank)
  }
}

private let limit = StateSizeLimit.maximumByteCount

@Suite("The size limit of a node's state")
struct StateSizeTests {
  @Test(
    "A step to a state over the limit is refused with that reason, and other steps are accepted")
  func refused() {
    let machine = editor().refusing(by: StateMeter())
    #expect(machine.reduce(.blank, .write(text(limit))) == .refused(.stateTooLarge))
    #expect(machine.reduce(.blank, .write("short")) == .next(.written("short")))
    let most = text(limit - "{\"written\":{\"_0\":\"\"}}".utf8.count)
    #expect(machine.reduce(.blank, .write(most)) == .next(.written(most)))
    #expect(machine.reduce(.written(most), .write(most + "x")) == .refused(.stateTooLarge))
  }

  @Test("An asynchronous transition to a state over the limit is refused with the same reason")
  func asynchronous() async throws {
    let machine = editor().refusing(by: StateMeter())
    guard case .suspended(let transition) = machine.reduce(.blank, .later(byteCount: limit)) else {
      Issue.record("not suspended")
      return
    }
    #expect(transition.limit == .seconds(1))
    do {
      _ = try await transition()
      Issue.record("not refused")
    } catch { #expect(Refusal.thrown(by: error) == .stateTooLarge) }
  }

  @Test(
    "A state that grows step by step never exceeds the limit", arguments: [1_000, 30_000, 200_000])
  func growth(step: Int) {
    let machine = editor().refusing(by: StateMeter())
    var state = Page.blank
    var steps = 0
    // The number of steps that fit.
    let most = (limit - "{\"list\":{\"_0\":[]}}".utf8.count + 1) / (step + 3)
    while steps <= most, case .next(let next) = machine.reduce(state, .append(byteCount: step)) {
      state = next
      steps += 1
    }
    #expect(steps == most)
    #expect(machine.reduce(state, .append(byteCount: step)) == .refused(.stateTooLarge))
  }

  @Test("If an older journal's state exceeds the limit, the state can shrink or stay, but not grow")
  func tooLarge() {
    let machine = editor().refusing(by: StateMeter())
    let old = Page.written(text(2 * limit))
    #expect(machine.reduce(old, .write(text(2 * limit + 1))) == .refused(.stateTooLarge))
    #expect(machine.reduce(old, .write(text(2 * limit))) == .next(old))
    let less = Page.written(text(limit + 5))
    #expect(machine.reduce(old, .write(text(limit + 5))) == .next(less))
    #expect(machine.reduce(less, .clear) == .next(.blank))
  }
}
