import PipeTopology
import PipeWire
import Testing

@Suite("Former names of nodes, pipes and composites")
struct FormerNameTests {
  private static let pair = """
    topology: t
    program: p
    nodes:
      a: { machine: M, was: [x, y] }
      b: { machine: M }
      c: { machine: M, key: k, shards: 2, was: [z] }
    pipes:
      - { from: a.out, to: b.in }
      - { from: b, when: s, to: a, send: e, name: named }
      - { from: b.out, to: c, name: routed, was: [former] }
      - { from: a.out, to: c }
    composites:
      two: { components: [a, b], was: [pair] }
    """

  @Test("A new name changes the names of shards, and of the pipes whose names derive from it")
  func changes() throws {
    let changes = try topology(Self.pair).nameChanges
    #expect(
      changes.members == [
        "x": "a", "y": "a", "z.0": "c.0", "z.1": "c.1", "pair": "two",
      ])
    #expect(
      changes.pipes["x.out->b.in"] == .init("a.out->b.in", from: "a", to: "b"))
    #expect(changes.pipes["y.out->b.in"]?.name == "a.out->b.in")
    #expect(changes.pipes["former.0"] == .init("routed.0", from: "b", to: "c.0"))
    #expect(changes.pipes["former.1"]?.name == "routed.1")
    for sender in ["a", "x", "y"] {
      for receiver in ["c", "z"] where sender != "a" || receiver != "c" {
        #expect(changes.pipes["\(sender).out->\(receiver).1"]?.name == "a.out->c.1")
      }
    }
    #expect(changes.pipes["named"] == nil && changes.pipes.count == 2 + 2 + 5 * 2)
    #expect(changes.formerNames(of: "a") == ["x", "y"])
  }

  @Test("A pipe that has a former derived name as its name keeps its events")
  func keptName() throws {
    let text = Self.pair.replacing(
      "{ from: a.out, to: b.in }", with: "{ from: a.out, to: b.in, name: x.out->b.in }")
    #expect(try topology(text).nameChanges.pipes["x.out->b.in"] == nil)
  }

  @Test("Former names are written to a file and read from it")
  func written() throws {
    let read = try topology(Self.pair)
    #expect(try topology(read.yaml) == read)
    #expect(read.yaml.contains(#"was: [x, "y"]"#))
  }

  @Test(
    "A former name that is in use, or that two items have, is an error",
    arguments: [
      ("a: { machine: M, was: [a] }", "lists its present name"),
      ("a: { machine: M, was: [b] }\nb: { machine: M }", "which is the name of the node at line 5"),
      (
        "a: { machine: M, was: [b] }\nb: { machine: M, was: [a] }",
        "'a' and 'b' cannot exchange their names at once"
      ),
      (
        "a: { machine: M, was: [c] }\nb: { machine: M, was: [c] }",
        "'was' lists 'c', as does node 'a'"
      ),
      ("a: { machine: M, was: [c, c] }", "lists 'c' twice"),
      ("a: { machine: M, was: [the door] }", "'the door' is not a valid name"),
      ("a: { machine: M, was: c }", "must be a list of names"),
    ])
  func errors(nodes: String, message: String) {
    let found = PipeTopologyTests.errors(withNodes(nodes))
    #expect(found.contains { $0.contains(message) }, "\(found)")
  }

  @Test(
    "A former name of a pipe that is in use, or that two pipes have, is an error",
    arguments: [
      ("was: [q]", "which is the name of another pipe"), ("was: [p]", "lists its present name"),
      ("was: [r]", "'was' lists 'r', as does pipe 'p'"), ("was: ['a b']", "lists 'a b'"),
    ])
  func pipeErrors(key: String, message: String) {
    let second = key == "was: [r]" ? ", was: [r]" : ""
    let found = PipeTopologyTests.errors(
      withNodes("a: { machine: M }\nb: { machine: M }")
        + "pipes:\n  - { from: a.out, to: b, name: p, \(key) }\n"
        + "  - { from: a.out, to: b, name: q\(second) }\n")
    #expect(found.contains { $0.contains(message) }, "\(found)")
  }
}
