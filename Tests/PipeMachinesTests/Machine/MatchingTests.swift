import PipeMachines
import Testing

private protocol Ware: Sendable { var price: Int { get } }
private struct Book: Ware { var price: Int }

private enum Shop: MachineState, Equatable {
  case idle
  case visited(by: String, at: Int)
  case counted(Int)
  case weighed(Int)
  case listed([String], total: Double)
  indirect case nested(Shop, depth: Int)
  case done
}

private enum Sale: DSLCompatible {
  case enter
  case leave
  case named(String)
  case renamed(String)
  case pair(first: Int, second: String)
  case triple(Int8, Int64, Bool)
  case ware(any Ware)
  indirect case again(Sale)
  case optional(Int?)
}

private func shop() -> StateMachine<Shop, Sale, Never> {
  StateMachine(initial: .idle) {
    When(state: .idle) {
      On(event: .enter) { Transition(to: .counted(1)) }
      On(event: .leave) { event in Transition(to: .done) }
      On(event: Sale.named) { name in Transition(to: .visited(by: name, at: 1)) }
      On(event: Sale.renamed) { name in Transition(to: .visited(by: name, at: 2)) }
      On(event: Sale.pair(first:second:)) { first, second in
        Transition(to: .visited(by: second, at: first))
      }
      On(event: Sale.triple) { small, large, flag in
        Transition(to: .counted(Int(small) + Int(large) + (flag ? 1 : 0)))
      }
      On(event: Sale.ware) { ware in Transition(to: .weighed(ware.price)) }
      On(event: Sale.again) { _ in Transition(to: .nested(.counted(4), depth: 2)) }
      On(event: Sale.optional) { value in Transition(to: .counted(value ?? -1)) }
    }
    When(state: Shop.counted) { count in
      On(event: .enter) { Transition(to: .counted(count + 1)) }
    }
    When(state: Shop.weighed) { weight in
      On(event: .enter) { Transition(to: .counted(-weight)) }
    }
    When(state: Shop.nested(_:depth:)) { inner, depth in
      On(event: .enter) { Transition(to: depth > 1 ? .nested(inner, depth: depth - 1) : inner) }
    }
    When(state: Shop.listed(_:total:)) { names, total in
      for name in names {
        On(event: Sale.named) { other in
          Guard(predicate: other == name)
        } transition: { other in
          Transition(to: .listed([other], total: total + 1))
        }
      }
    }
  }
}

@Suite("Matching by case")
struct MatchingTests {
  private let machine = shop()

  @Test("Payloads of every shape reach the transition unchanged")
  func shapes() {
    let long = String(repeating: "a visitor with a long name ", count: 4)
    #expect(machine.reduce(.idle, .enter) == .next(.counted(1)))
    #expect(machine.reduce(.idle, .leave) == .next(.done))
    #expect(machine.reduce(.idle, .named(long)) == .next(.visited(by: long, at: 1)))
    #expect(machine.reduce(.idle, .renamed(long)) == .next(.visited(by: long, at: 2)))
    #expect(
      machine.reduce(.idle, .pair(first: 7, second: long)) == .next(.visited(by: long, at: 7)))
    #expect(machine.reduce(.idle, .triple(1, 1 << 40, true)) == .next(.counted(1 << 40 + 2)))
    #expect(machine.reduce(.idle, .ware(Book(price: 12))) == .next(.weighed(12)))
    #expect(machine.reduce(.idle, .again(.named("x"))) == .next(.nested(.counted(4), depth: 2)))
    #expect(machine.reduce(.idle, .optional(nil)) == .next(.counted(-1)))
    #expect(machine.reduce(.idle, .optional(5)) == .next(.counted(5)))
  }

  @Test("States with the same payload types are distinguished")
  func alikes() {
    #expect(machine.reduce(.counted(3), .enter) == .next(.counted(4)))
    #expect(machine.reduce(.weighed(3), .enter) == .next(.counted(-3)))
  }

  @Test("An indirect enum state can be read repeatedly")
  func indirect() {
    let state = Shop.nested(.listed(["a", "b"], total: 1), depth: 2)
    for _ in 0..<100 {
      #expect(
        machine.reduce(state, .enter) == .next(.nested(.listed(["a", "b"], total: 1), depth: 1)))
    }
    #expect(machine.reduce(.nested(.idle, depth: 1), .enter) == .next(.idle))
  }

  @Test("A loop in the builder makes one transition for each element")
  func loop() {
    let state = Shop.listed(["ada", "bob"], total: 1)
    #expect(machine.reduce(state, .named("bob")) == .next(.listed(["bob"], total: 2)))
    #expect(machine.reduce(state, .named("eve")) == .refused(.guard))
    #expect(machine.reduce(.listed([], total: 1), .named("eve")) == .refused(.noTransition))
  }

  @Test("The alphabet of a machine contains every event of its transitions, even inside loops")
  func alphabet() {
    #expect(Set(machine.alphabet) == Set(machine.events.map(\.name)))
  }

  @Test("A case whose only value is a tuple or contains a function is matched by its constructor")
  func oneValue() async {
    struct Work: Sendable { var call: @Sendable (Int) -> Int }
    enum Post: DSLCompatible { case at((Int, Int)), doing(Work), idle, done(Int) }
    enum Order: DSLCompatible {
      case go((Int, Int)), run((x: Int, y: Int)), apply(Work), slowly((Int, Int))
    }
    enum Call: DSLCompatible { case ring((Int, Int)), invoke(Work) }
    let machine = StateMachine<Post, Order, Call>(initial: .idle) {
      When(
        states: OneOf {
          Post.idle; Post.at
        }
      ) {
        On(event: Order.go) { place in Transition(to: .at(place)) }
        On(event: Order.run) { place in
          Guard(predicate: place.x > 0)
        } transition: { place in
          Transition(to: .at((place.x, place.y)))
        }
        On(event: Order.apply) { work in Transition(to: .doing(work)) }
        On(event: Order.slowly) { place in
          await Task.yield()
          return Transition(to: .at(place))
        }
      }
      When(state: Post.at) { place in
        Execute(output: .ring(place))
      } transitions: { place in
        On(event: Order.apply) { _ in Transition(to: .idle) }
      }
      When(state: Post.doing) { work in
        Execute(output: .invoke(work))
      } transitions: { work in
        On(event: Order.go) { place in Transition(to: .done(work.call(place.0))) }
      }
    }
    func place(_ state: Post?) -> [Int] {
      if case .at(let place)? = state { [place.0, place.1] } else { [] }
    }
    #expect(place(await machine.next(.idle, .go((1, 2)))) == [1, 2])
    #expect(place(await machine.next(.at((0, 0)), .run((x: 3, y: 4)))) == [3, 4])
    #expect(place(await machine.next(.idle, .run((x: 0, y: 4)))) == [])
    #expect(place(await machine.next(.idle, .slowly((5, 6)))) == [5, 6])
    #expect(Set(machine.alphabet) == ["go", "run", "apply", "slowly"])

    let runtime = Runtime<Post, Order, Call>()
      .map(output: Call.ring, to: { place in .apply(Work { $0 + place.0 + place.1 }) })
      .map(output: Call.invoke, to: { work in .go((work.call(100), 0)) })
    let sequence = AsyncStateMachineSequence(stateMachine: machine, runtime: runtime)
    await sequence.send(.go((1, 2)))
    for await state in sequence {
      if case .done(let number) = state {
        #expect(number == 106)
        break
      }
    }
  }

  #if !PIPERUNTIME_TSAN
    @Test("A 'When' with a case that carries a function ends the program")
    func function() async {
      await #expect(processExitsWith: .failure) {
        enum Post: DSLCompatible { case idle, doing(@Sendable (Int) -> Int) }
        _ = StateMachine<Post, Never, Never>(initial: .idle) {
          When(state: Post.doing) { _ in Execute.noOutput }
        }
      }
    }
  #endif

  @Test("Payloads are neither leaked nor freed twice")
  func ownership() {
    final class Token: Sendable {}
    enum Box: DSLCompatible {
      case full(Token)
      case empty
      indirect case deep(Token, Int)
    }
    enum Move: DSLCompatible {
      case put(Token)
      case drop
    }
    let machine = StateMachine(initial: Box.empty) {
      When(state: Box.full) { token in
        On(event: Move.drop) { Transition(to: Box.deep(token, 1)) }
      }
      When(state: Box.deep) { token, _ in
        On(event: Move.drop) { Transition(to: Box.empty) }
      }
      When(state: Box.empty) {
        On(event: Move.put) { token in Transition(to: Box.full(token)) }
      }
    }
    weak var weakToken: Token?
    do {
      let token = Token()
      weakToken = token
      var state = Box.empty
      for event in [Move.put(token), .drop, .drop, .put(token), .drop] {
        guard case .next(let next) = machine.reduce(state, event) else {
          Issue.record("refused")
          return
        }
        state = next
      }
      #expect(weakToken != nil)
      _ = state
    }
    #expect(weakToken == nil)
  }

  @Test("A type that is not an enum has no cases")
  func notEnums() {
    #expect(EnumCases<Int>.names.isEmpty)
    #expect(EnumCases<Int>.tag(of: 3) == nil)
    #expect(EnumCases<String>.name(of: "x") == nil)
    #expect(EnumCases<Int>.bareValue(tag: 0) == nil)
    #expect(EnumCases<Never>.names.isEmpty)
  }

  @Test("A value can be created from a case's name only if the case has no payload")
  func bareValues() {
    #expect(EnumCases<Shop>.bareValue(named: "done") == .done)
    #expect(EnumCases<Shop>.bareValue(named: "idle") == .idle)
    #expect(EnumCases<Shop>.bareValue(named: "counted") == nil)
    #expect(EnumCases<Shop>.name(of: .listed([], total: 0)) == "listed")
  }

  @Test("Fields have the names that synthesized Codable uses")
  func fields() {
    let cases = EnumCases<Shop>.descriptions
    let fields = Dictionary(uniqueKeysWithValues: cases.map { ($0.name, $0.fields) })
    #expect(fields["visited"]?.map(\.name) == ["by", "at"])
    #expect(fields["visited"]?.map(\.type) == ["String", "Int"])
    #expect(fields["counted"]?.map(\.name) == ["_0"])
    #expect(fields["listed"]?.map(\.name) == ["_0", "total"])
    #expect(fields["listed"]?.map(\.type) == ["Array<String>", "Double"])
    #expect(fields["nested"]?.map(\.type) == ["Shop", "Int"])
    #expect(fields["done"]?.isEmpty == true)
  }
}
