import PipeWire
import Testing

@Suite("The wording of errors in a node's status")
struct StatusErrorTests {
  private static let remedy =
    ", and is not shown; rebuild the node's program with the same version of PipeRuntime as the "
    + "orchestrator"

  @Test(
    "An invalid status is described with the invalid key and a remedy",
    arguments: [
      (.missingKey("outs[0].waiting"), "the node's status lacks the key 'outs[0].waiting'"),
      (.wrongValue(of: "gaps"), "the node's status has an invalid value for the key 'gaps'"),
      (.unreadable, "the node's status is not a JSON object"),
    ] as [(StatusError, String)])
  func wording(error: StatusError, text: String) {
    #expect(error.description == text + Self.remedy)
  }
}
