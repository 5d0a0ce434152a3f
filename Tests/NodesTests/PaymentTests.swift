import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import Testing

@Suite("The payment example")
struct PaymentTests {
  private typealias Payments = XCTStateMachine<Payment.State, Payment.Event, Never>

  @Test("If a payment is not made in time, a reminder follows, and then the payment expires")
  func steps() {
    let machine = Payment.stateMachine(Payment.Parameters())
    let coverage = TransitionCoverage(machine)
    XCTStateMachine(machine, coverage: coverage)
      .assert(steps: [
        .on(.request, to: .requested), .after(.seconds(30), to: .reminded),
        .after(.seconds(10), to: .expired), .refuses(.pay),
      ])
      .assert(when: .requested, .reminded, on: .pay, transitionTo: .paid)
      .assertNoTimer(when: .new, .paid, .expired)
    coverage.assertComplete()
    #expect(coverage.entries.map(\.name).contains(TransitionName("requested", on: "(after)")))
  }

  @Test("If an assertion expects a wrong timer, its failure shows the actual timer")
  func failures() {
    let reported = Locked<[String]>([])
    let payments = Payments(
      Payment.stateMachine(Payment.Parameters()),
      fail: { text in reported.withLock { $0.append(text) } })
    payments
      .assert(when: .requested, after: .seconds(20), transitionTo: .reminded)
      .assert(when: .requested, after: .seconds(30), transitionTo: .expired)
      .assert(when: .paid, after: .seconds(1), transitionTo: .expired)
      .assertNoTimer(when: .reminded)
    let texts = reported.withLock { $0 }
    #expect(texts.count == 4)
    for (text, part) in zip(
      texts, ["actual:   after 30 s", "actual:   reminded", "actual:   no timer", "after 10 s"])
    { #expect(text.contains(part), "\(text)") }
  }

  @Test("A running payment's timers fire when a manual clock advances")
  func clock() async {
    let machine = Payment.stateMachine(Payment.Parameters())
    await withManualClock { clock in
      let payment = AsyncStateMachineSequence(
        stateMachine: machine, runtime: Runtime<Payment.State, Payment.Event, Never>())
      await payment.send(.request)
      await clock.advance(by: .seconds(29))
      #expect(payment.state == .requested)
      await clock.advance(by: .seconds(1))
      #expect(payment.state == .reminded)
      await payment.send(.pay)
      await clock.advance(by: .seconds(60))
      #expect(payment.state == .paid)
      payment.finish()
    }
  }

  @Test("The coverage of a running machine includes the timers that fired")
  func coverage() async {
    let machine = Payment.stateMachine(Payment.Parameters())
    let coverage = TransitionCoverage(machine)
    await withManualClock { clock in
      let payment = AsyncStateMachineSequence(
        stateMachine: machine,
        runtime: Runtime<Payment.State, Payment.Event, Never>().recording(into: coverage))
      await payment.send(.request)
      await clock.advance(by: .seconds(30))
      payment.finish()
    }
    let taken = coverage.entries.filter { $0.takenCount > 0 }.map(\.name)
    #expect(
      taken == [TransitionName("new", on: "request"), TransitionName("requested", on: "(after)")])
  }
}
