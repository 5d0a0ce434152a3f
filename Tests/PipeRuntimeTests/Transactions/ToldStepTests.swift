import PipeRuntime
import Testing

@Suite("What a node tells of a step")
struct ToldStepTests {
  @Test(
    "is read as it was written",
    arguments: [
      ToldStep(.step, state: Array(#""open""#.utf8)),
      ToldStep(
        .step, transaction: TransactionID(epoch: 3, sequence: 17),
        state: Array(#"{"closing":{"speed":1.50,"a":[{},"\"}"]}}"#.utf8)),
      ToldStep(.first, state: Array("null".utf8)), ToldStep(.none, state: Array("[]".utf8)),
    ])
  func roundTrip(step: ToldStep) throws {
    var bytes: [UInt8] = []
    step.write(into: &bytes)
    #expect(ToldStep(bytes) == step)
  }

  @Test(
    "anything else is no step",
    arguments: [
      "", "null", "[]", #"{"state":1}"#, #"{"entry":"step"}"#, #"{"entry":"fall","state":1}"#,
      #"{"entry":1,"state":1}"#, #"{"entry":"step","transaction":"x","state":1}"#,
      #"{"entry":"step","transaction":3,"state":1}"#, #"{"entry":"step","state":1"#,
    ])
  func garbage(text: String) { #expect(ToldStep(Array(text.utf8)) == nil) }
}
