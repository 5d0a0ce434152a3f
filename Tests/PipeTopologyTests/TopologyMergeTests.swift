import PipeMachines
import PipeTopology
import PipeWire
import Testing

@Suite("Merge keys in a topology")
struct TopologyMergeTests {
  @Test("An alias after '<<' supplies only the keys that the mapping lacks")
  func one() throws {
    let found = try topology(
      """
      x-base: &base { machine: M, required: true, parameters: { a: 1 } }
      topology: t
      program: p
      nodes:
        a: { <<: *base }
        b: { required: false, <<: *base, parameters: { <<: { b: 2, a: 3 }, a: 4 } }

      """)
    #expect(
      found.nodes == [
        .machine("M", name: "a", parameters: ["a": 1], required: true),
        .machine("M", name: "b", parameters: ["a": 4, "b": 2]),
      ])
  }

  @Test("If '<<' lists aliases, the first alias with a key supplies the key's value")
  func several() throws {
    let found = try topology(
      """
      x-1: &a { machine: A, program: p }
      x-2: &b { machine: B, required: true }
      x-3: &c { <<: *b, machine: C, durability: none }
      topology: t
      nodes:
        ab: { <<: [*a, *b] }
        ca: { <<: [*c, *a] }

      """)
    var second = NodeSpecification.machine("C", name: "ca", program: "p", required: true)
    second.durability = .volatile
    #expect(found.nodes == [.machine("A", name: "ab", program: "p", required: true), second])
  }

  @Test("Nodes, pipes and the top level can be merged, and keep their order")
  func anywhere() throws {
    let found = try topology(
      """
      x-nodes: &nodes { b: { machine: M }, c: { machine: M } }
      x-pipe: &pipe { from: a.out, capacity: 2 }
      <<: { program: p, topology: t }
      nodes: { a: { machine: M }, <<: *nodes, d: { machine: M } }
      pipes:
        - { <<: *pipe, to: b }
        - { <<: *pipe, to: c, capacity: 3 }

      """)
    #expect(found.name == "t" && found.program == "p")
    #expect(found.nodes.map(\.name) == ["a", "b", "c", "d"])
    #expect(found.pipes.map(\.capacity) == [2, 3])
  }

  @Test("An error in a merged value is reported at the value, for each mapping that uses the value")
  func places() {
    let found = errors(
      """
      x-base: &base { machine: M, reqired: true }
      topology: t
      program: p
      nodes:
        a: { <<: *base }
        b: { <<: *base }

      """)
    #expect(found.map { $0.split(separator: " ")[0] } == ["test.yaml:1:29:", "test.yaml:1:29:"])
    #expect(found[0].contains("node 'a': unknown key 'reqired'"))
    #expect(found[1].contains("node 'b': unknown key 'reqired'"))
  }

  @Test("Sections 'x-' are ignored at the top level, and refused elsewhere")
  func sections() throws {
    let text = withNodes("a: { machine: M }", and: "x-: 1\nx-notes: { nodes: 3, a: ${}, a: $ }\n")
    #expect(try topology(text).nodes.count == 1)
    #expect(
      errors(withNodes("a: { machine: M, x-note: 1 }")).first?.contains("unknown-key") == true)
  }
}
