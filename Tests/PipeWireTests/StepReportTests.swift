import PipeMachines
import PipeWire
import Testing

@Suite("A node's step report")
struct StepReportTests {
  @Test(
    "A step report is read unchanged",
    arguments: [
      StepReport(.step, state: Array(#""open""#.utf8)),
      StepReport(
        .step, transaction: TransactionID(epoch: 3, sequence: 17),
        state: Array(#"{"closing":{"speed":1.50,"a":[{},"\"}"]}}"#.utf8)),
      StepReport(.first, state: Array("null".utf8)), StepReport(.none, state: Array("[]".utf8)),
      StepReport(.step, transaction: TransactionID(epoch: 3, sequence: 17), state: nil),
      StepReport(.first, state: nil),
    ])
  func roundTrip(step: StepReport) throws {
    var bytes: [UInt8] = []
    step.write(into: &bytes)
    #expect(StepReport(bytes) == step)
  }

  @Test(
    "Text in another form is not a step report",
    arguments: [
      "", "null", "[]", #"{"state":1}"#, #"{"entry":"fall","state":1}"#,
      #"{"entry":1,"state":1}"#, #"{"entry":"step","transaction":"x","state":1}"#,
      #"{"entry":"step","transaction":3,"state":1}"#, #"{"entry":"step","state":1"#,
    ])
  func garbage(text: String) { #expect(StepReport(Array(text.utf8)) == nil) }

  @Test("A step report with the largest or deepest allowed state can be read")
  func limits() throws {
    let last = TransactionID(epoch: .max, sequence: .max)
    let text = String(repeating: "x", count: StepReport.maximumStateByteCount - 2)
    let depth = StepReport.maximumStateDepth
    let nest = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    for state in [Array("\"\(text)\"".utf8), Array(nest.utf8)] {
      #expect(StepReport.reasonNotToReport(state) == nil)
      let step = StepReport(.first, transaction: last, state: state)
      var bytes: [UInt8] = []
      step.write(into: &bytes)
      #expect(bytes.count <= WireLimits.maximumEventByteCount)
      #expect(StepReport(bytes) == step)
    }
    let large = try #require(StepReport.reasonNotToReport(Array("\"\(text)x\"".utf8)))
    #expect(large.hasPrefix("the state has 1048449 bytes; the limit is 1048448; "))
    let deep = try #require(StepReport.reasonNotToReport(Array("[\(nest)]".utf8)))
    #expect(deep.hasPrefix("the state is nested more than 498 levels deep, which is the limit; "))
  }
}
