import PipeMachines
import PipeSupport
import TestTraits
import Testing

@Suite("Hashes of states", .timed)
struct StateHashTests {
  private enum Plain: MachineState, SynthesizedCodable {
    case idle
    case moving(floor: Int, name: String?)
  }

  private enum Tagged: MachineState, SynthesizedCodable {
    case tags(Set<String>)
  }

  private struct Members: MachineState {
    var count = 0
  }

  @Test("The 64-bit hash of a text is its FNV-1a hash")
  func vectors() {
    for (text, hash) in [
      ("", 0xCBF2_9CE4_8422_2325), ("a", 0xAF63_DC4C_8601_EC8C), ("foobar", 0x8594_4171_F739_67E8),
    ] as [(String, UInt64)] {
      #expect(StateHash.fnv1a.hash(of: Array(text.utf8)) == hash)
    }
  }

  @Test(
    "The unordered hash is the same for any order of members and elements, and differs otherwise")
  func unordered() {
    func hash(_ text: String) -> UInt64 { StateHash.unordered.hash(of: Array(text.utf8)) }
    let texts = [
      #"{"a":1,"b":[1,2,{"c":"x","d":null}]}"#, #"{"b":[{"d":null,"c":"x"},2,1],"a":1}"#,
    ]
    #expect(hash(texts[0]) == hash(texts[1]))
    let others = [
      #"{"a":2,"b":[1,2,{"c":"x","d":null}]}"#, #"{"b":1,"a":[1,2,{"c":"x","d":null}]}"#,
      #"{"a":1,"b":[1,2,2,{"c":"x","d":null}]}"#, #"{"a":1,"b":[1,2,{"c":"y","d":null}]}"#,
      #"{"a":1,"b":{"1":2}}"#, "[]", "{}", #""a""#, "1",
    ]
    #expect(Set((others + texts).map(hash)).count == others.count + 1)
  }

  @Test("Only a type whose text depends on the value alone is hashed by its text", .valuesInPlace)
  func types() {
    #expect(EventCodec<Plain>(isSynthesized: true).stateHash == .fnv1a)
    #expect(EventCodec<Plain>().stateHash == .unordered)
    #expect(EventCodec<Tagged>(isSynthesized: true).stateHash == .unordered)
    #expect(EventCodec<Members>().stateHash == .unordered)
  }
}
