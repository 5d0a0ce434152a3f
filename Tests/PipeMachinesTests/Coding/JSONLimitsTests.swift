import PipeMachines
import Testing

@Suite("Numbers in JSON text")
struct JSONLimitsTests {
  @Test(
    "The first integer beyond 64 bits is returned with its spelling in the text",
    arguments: [
      ("99999999999999999999", "99999999999999999999"),
      (#"{"a":[1,-9223372036854775809,99999999999999999999]}"#, "-9223372036854775809"),
      (#"{"a\n":9223372036854775808}"#, "9223372036854775808"),
      ("9223372036854775807", nil), ("-9223372036854775808", nil), ("1e30", nil),
      ("99999999999999999999.5", nil), (#""99999999999999999999""#, nil), ("[", nil), ("", nil),
    ])
  func beyond(text: String, number: String?) {
    #expect(JSONValue.integerOutOfRange(in: text.utf8) == number)
  }

  @Test(
    "A number that was rounded to an integer is unchanged by encoding and decoding",
    arguments: [
      ("3333333333333333333.9", 3_333_333_333_333_333_504),
      ("-9223372036854774784.4", -9_223_372_036_854_774_784), ("0.5", nil),
      ("9223372036854775807.5", nil), ("333333333333333333333.9", nil), ("1e300", nil),
    ] as [(String, Int64?)])
  func rounded(text: String, whole: Int64?) throws {
    let value = try JSONValue(parsing: text.utf8)
    #expect(value.integer == whole)
    #expect(try JSONValue(parsing: value.bytes) == value)
  }
}
