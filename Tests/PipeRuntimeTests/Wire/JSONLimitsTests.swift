import PipeRuntime
import Testing

@Suite("Numbers in JSON text")
struct JSONLimitsTests {
  @Test(
    "the first whole number that is too large is found as it is written",
    arguments: [
      ("99999999999999999999", "99999999999999999999"),
      (#"{"a":[1,-9223372036854775809,99999999999999999999]}"#, "-9223372036854775809"),
      (#"{"a\n":9223372036854775808}"#, "9223372036854775808"),
      ("9223372036854775807", nil), ("-9223372036854775808", nil), ("1e30", nil),
      ("99999999999999999999.5", nil), (#""99999999999999999999""#, nil), ("[", nil), ("", nil),
    ])
  func beyond(text: String, number: String?) {
    #expect(JSONValue.wholeBeyondLimits(in: text.utf8) == number)
  }
}
