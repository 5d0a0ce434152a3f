import PipeMachines
import Testing

private protocol Shape: Sendable {}
private struct Circle: Shape { var radius = 1 }
private struct Note: Sendable { var text: String, tags: [String], next: [Note] }
private final class Handle: Sendable {}
private struct Point: Codable, Sendable { var x = 0, y = 0 }

private enum Kind: String, Codable, Sendable { case small, large }
private enum Nest: Codable, Sendable { case leaf(Int), pair(Point, Kind) }

// Twins: each pair of cases carries the same types.
private enum Twin: DSLCompatible {
  case shapeA(any Shape), shapeB(any Shape)
  case noteA(Note), noteB(Note)
  case handleA(Handle), handleB(Handle)
  case pairA(Int, String), pairB(Int, String)
  case listA([Point]), listB([Point])
  case mapA([String: Point?]), mapB([String: Point?])
  case nestA(Nest), nestB(Nest)
  case kindA(Kind), kindB(Kind)
  case anyA(Any.Type), anyB(Any.Type)
  case failureA(any Error), failureB(any Error)
  case bare
}

@Suite("Enum cases that are identified by a constructor")
struct ConstructorTests {
  private func name<each Value>(_ constructor: (repeat each Value) -> Twin) -> String {
    let pattern = CasePattern(constructor: constructor)
    return EnumCases<Twin>.names.indices.filter { $0 == pattern.tag }
      .map { EnumCases<Twin>.names[$0] }.joined()
  }

  @Test("Cases with the same payload types are distinguished, whatever the types are")
  func twins() {
    #expect(name(Twin.noteA) == "noteA")
    #expect(name(Twin.noteB) == "noteB")
    #expect(name(Twin.pairA) == "pairA")
    #expect(name(Twin.pairB) == "pairB")
    #expect(name(Twin.listA) == "listA")
    #expect(name(Twin.listB) == "listB")
    #expect(name(Twin.mapA) == "mapA")
    #expect(name(Twin.mapB) == "mapB")
    #expect(name(Twin.nestA) == "nestA")
    #expect(name(Twin.nestB) == "nestB")
    #expect(name(Twin.kindA) == "kindA")
    #expect(name(Twin.kindB) == "kindB")
    #expect(name(Twin.anyA) == "anyA")
    #expect(name(Twin.anyB) == "anyB")
    #expect(name(Twin.failureA) == "failureA")
    #expect(name(Twin.failureB) == "failureB")
  }

  @Test("A constructor of a pattern is called only with valid values, or not at all")
  func validValues() {
    var handed: [String] = []
    let note = CasePattern(constructor: { (note: Note) -> Twin in
      handed.append("\(note.text)\(note.tags)\(note.next.count)")
      return Twin.noteB(note)
    })
    #expect(note.matches(.noteB(Note(text: "", tags: [], next: []))))
    #expect(handed == ["[\"\"]0"])
    #expect(
      CasePattern<Twin>.tag(of: { (handle: Handle) -> Twin in
        handed.append("\(handle)")
        return Twin.handleA(handle)
      }) == nil)
    #expect(
      CasePattern<Twin>.tag(of: { (shape: any Shape) -> Twin in
        handed.append("\(shape)")
        return Twin.shapeA(shape)
      }) == nil)
    #expect(handed.count == 1)
  }

  @Test("Two states with the same payload type but no sample value end the program with advice")
  func unknownTwins() async {
    let result = await #expect(
      processExitsWith: .failure, observing: [\.standardErrorContent]
    ) {
      _ = CasePattern(constructor: Twin.handleA)
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("use different payload types"), "\(text)")
  }

  @Test("Events with equal payload types of any shape are distinguished")
  func matching() {
    enum Seen: DSLCompatible, Equatable { case none, a(String), b(String) }
    let machine = StateMachine<Seen, Twin, Never>(initial: .none) {
      When(state: Seen.none) {
        On(event: Twin.shapeA) { Transition(to: .a("\($0)")) }
        On(event: Twin.shapeB) { Transition(to: .b("\($0)")) }
        On(event: Twin.handleA) { _ in Transition(to: .a("handle")) }
        On(event: Twin.handleB) { _ in Transition(to: .b("handle")) }
        On(event: Twin.noteA) { Transition(to: .a($0.text)) }
        On(event: Twin.noteB) { Transition(to: .b($0.text)) }
        On(event: Twin.pairA) { Transition(to: .a("\($0) \($1)")) }
        On(event: Twin.pairB) { Transition(to: .b("\($0) \($1)")) }
        On(event: Twin.mapB) { Transition(to: .b("\($0.count)")) }
      }
    }
    #expect(machine.reduce(.none, .handleA(Handle())) == .next(.a("handle")))
    #expect(machine.reduce(.none, .handleB(Handle())) == .next(.b("handle")))
    let text = String(repeating: "long enough for the heap ", count: 3)
    #expect(machine.reduce(.none, .shapeB(Circle())) == .next(.b("Circle(radius: 1)")))
    #expect(machine.reduce(.none, .shapeA(Circle())) == .next(.a("Circle(radius: 1)")))
    #expect(machine.reduce(.none, .noteA(Note(text: text, tags: [], next: []))) == .next(.a(text)))
    #expect(machine.reduce(.none, .noteB(Note(text: text, tags: [], next: []))) == .next(.b(text)))
    #expect(machine.reduce(.none, .pairA(1, text)) == .next(.a("1 \(text)")))
    #expect(machine.reduce(.none, .pairB(1, text)) == .next(.b("1 \(text)")))
    #expect(machine.reduce(.none, .mapB(["x": nil])) == .next(.b("1")))
    #expect(machine.reduce(.none, .bare) == .refused(.noTransition))
  }
}
