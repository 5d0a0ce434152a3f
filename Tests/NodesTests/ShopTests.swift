import PipeRuntime
import PipeRuntimeTestKit
import Shop
import ShopVersion2
import Testing

@Suite("The machines of the shop")
struct ShopTests {
  @Test("An order is shipped after its goods were reserved and it was committed")
  func order() {
    let machine = Shop.Order.stateMachine(NoParameters())
    let coverage = TransitionCoverage(machine)
    XCTStateMachine(machine, coverage: coverage)
      .assert(steps: [
        .on(.place(order: "a", amount: 30), to: .placed(amount: 30)),
        .on(.goodsReserved(order: "a"), to: .reserved(amount: 30)),
        .on(.commitOrder(order: "a"), to: .committed(amount: 30)), .refuses(.cancel(order: "a")),
        .on(.parcelSent(order: "a"), to: .shipped(amount: 30)),
      ])
      .assert(
        when: .placed(amount: 30), .reserved(amount: 30), on: .cancel(order: "a"),
        transitionTo: .cancelled
      )
      .assertNoTransition(when: .new, on: .place(order: "a", amount: 0), because: .guard)
      .assertNoTransition(when: .placed(amount: 30), on: .commitOrder(order: "a"))
    coverage.assertComplete()
  }

  @Test("A reservation expires, unless the goods are sold or released before")
  func stock() {
    let machine = Stock.stateMachine(Stock.Parameters())
    let coverage = TransitionCoverage(machine)
    XCTStateMachine(machine, coverage: coverage)
      .assert(steps: [
        .on(.reserve(order: "a"), to: .reserved), .after(.seconds(900), to: .expired),
        .refuses(.commitOrder(order: "a")), .on(.release(order: "a"), to: .released),
      ])
      .assert(when: .reserved, on: .commitOrder(order: "a"), transitionTo: .sold)
      .assert(when: .free, .reserved, on: .release(order: "a"), transitionTo: .released)
      .assertNoTimer(when: .free, .sold, .expired, .released)
    coverage.assertComplete()
  }

  @Test("A customer is charged, and gets the money back if the order is cancelled")
  func payment() {
    let machine = Payment.stateMachine(Payment.Parameters())
    let coverage = TransitionCoverage(machine)
    XCTStateMachine(machine, coverage: coverage)
      .assert(steps: [
        .on(.charge(order: "a", amount: 30), to: .charging(order: "a", amount: 30)),
        .on(.charged, to: .charged(order: "a")), .on(.commitOrder(order: "a"), to: .settled),
      ])
      .assert(steps: [
        .on(.charge(order: "a", amount: 30), to: .charging(order: "a", amount: 30)),
        .on(.refund(order: "a"), to: .cancelling(order: "a")),
        .on(.charged, to: .refunding(order: "a")), .on(.refunded, to: .refunded),
      ])
      .assert(
        when: .charging(order: "a", amount: 1), .cancelling(order: "a"), on: .declined,
        transitionTo: .declined
      )
      .assert(
        when: .charged(order: "a"), on: .refund(order: "a"), transitionTo: .refunding(order: "a")
      )
      .assert(when: .none, on: .refund(order: "a"), transitionTo: .void)
      .assertNoTransition(when: .void, on: .charge(order: "a", amount: 30))
      .assert(
        when: .charging(order: "a", amount: 30), execute: .charge(order: "a", amount: 30)
      )
      .assert(when: .refunding(order: "a"), execute: .refund(order: "a"))
      .assertNoOutput(when: .none, .cancelling(order: "a"), .charged(order: "a"), .settled)
    coverage.assertComplete()
  }

  @Test("A parcel is packed, and then sent")
  func shipping() {
    let machine = Shipping.stateMachine(Shipping.Parameters())
    let coverage = TransitionCoverage(machine)
    XCTStateMachine(machine, coverage: coverage)
      .assert(steps: [.on(.pack(order: "a"), to: .packing), .on(.packed, to: .sent)])
      .assert(when: .packing, execute: .pack)
    coverage.assertComplete()
  }

  @Test("Version 2 of an order has points, which a migration computes for orders of version 1")
  func points() {
    XCTStateMachine(ShopVersion2.Order.self)
      .assertMigrates(from: #""new""#, to: .new)
      .assertMigrates(from: #"{"placed":{"amount":25}}"#, to: .placed(amount: 25, points: 2))
      .assertMigrates(from: #"{"reserved":{"amount":25}}"#, to: .reserved(amount: 25, points: 2))
      .assertMigrates(from: #"{"committed":{"amount":9}}"#, to: .committed(amount: 9, points: 0))
      .assertMigrates(from: #"{"shipped":{"amount":10}}"#, to: .shipped(amount: 10, points: 1))
      .assertMigrates(from: #""cancelled""#, to: .cancelled)
      .assert(
        when: .new, on: .place(order: "a", amount: 25), transitionTo: .placed(amount: 25, points: 2)
      )
      .assert(
        when: .reserved(amount: 25, points: 2), on: .commitOrder(order: "a"),
        transitionTo: .committed(amount: 25, points: 2))
  }

  @Test("A port of the payment service that does not exist is an invalid parameter")
  func port() {
    var parameters = Payment.Parameters()
    for (port, isValid) in [(0, false), (1, true), (65_535, true), (65_536, false)] {
      parameters.gateway = port
      #expect(((try? parameters.validate()) != nil) == isValid, "\(port)")
    }
  }

  @Test("The CSV file lists the counts that have changed")
  func counts() {
    let former = StateCounts.counts(in: ["placed": 2, "reserved": 3])
    let current = StateCounts.counts(in: ["cancelled": 1, "reserved": 3])
    let changes = StateCounts.changes(from: former, to: current)
    #expect(changes.map(\.state) == ["cancelled", "placed"])
    #expect(changes.map(\.count) == [1, 0])
    #expect(StateCounts.changes(from: current, to: current).isEmpty)
  }
}
