import PipeMachines
import PipeWire
import Testing

@Suite("Payload templates")
struct PayloadTemplateTests {
  @Test(
    "Names in a template are replaced by values of the state",
    arguments: [
      ("start", #"{"s":{}}"#, #""start""#),
      (["e": [:]], #"{"s":{}}"#, #"{"e":{}}"#),
      (["e": ["n": 1, "a": [.null, true]]], #"{"s":{}}"#, #"{"e":{"a":[null,true],"n":1}}"#),
      (["e": ["n": "$v"]], #"{"s":{"v":3}}"#, #"{"e":{"n":3}}"#),
      (["e": ["n": "$v"]], #"{"s":{"u":"}","v":"a\"b,"}}"#, #"{"e":{"n":"a\"b,"}}"#),
      (
        ["e": ["n": "$_0", "m": "$_1"]], #"{"s":{"_0":1.5,"_1":{"a":[1,{}]}}}"#,
        #"{"e":{"m":{"a":[1,{}]},"n":1.5}}"#
      ),
      (["e": ["n": ["$v", ["k": "$v"]]]], #"{"s":{"v":null}}"#, #"{"e":{"n":[null,{"k":null}]}}"#),
      (["e": ["n": "$v"]], #"{"s":{}}"#, #"{"e":{"n":null}}"#),
      (["e": ["n": "$v"]], #""s""#, #"{"e":{"n":null}}"#),
      (["e": ["n": "$$v"]], #"{"s":{"v":3}}"#, #"{"e":{"n":"$v"}}"#),
      (["e": ["n": "a $v, $w$$"]], #"{"s":{"v":3,"w":"\"x\""}}"#, #"{"e":{"n":"a 3, \"x\"$"}}"#),
      (["e": ["n": "is $v"]], #"{"s":{"v":{"a":"b"}}}"#, #"{"e":{"n":"is {\"a\":\"b\"}"}}"#),
      (["e": ["n": "$v"]], " { \"s\" : { \"v\" : [ 1 ] , \"w\" : 2 } } ", #"{"e":{"n":[ 1 ]}}"#),
      (["e": ["n": "$größe"]], #"{"s":{"größe":3}}"#, #"{"e":{"n":3}}"#),
    ] as [(JSONValue, String, String)])
  func render(send: JSONValue, state: String, event: String) throws {
    let template = try PayloadTemplate(send)
    #expect(String(decoding: template.render(state: Array(state.utf8)), as: UTF8.self) == event)
  }

  @Test("A deeply nested value is inserted as a whole")
  func deep() throws {
    let value = String(repeating: "[", count: 100) + String(repeating: "]", count: 100)
    let event = try PayloadTemplate(["e": ["n": "$v"]]).render(
      state: Array(#"{"s":{"v":\#(value)}}"#.utf8))
    #expect(String(decoding: event, as: UTF8.self) == #"{"e":{"n":\#(value)}}"#)
  }

  @Test("A template without placeholders always has the same bytes")
  func constant() throws {
    #expect(try PayloadTemplate("start").constant == Array(#""start""#.utf8))
    #expect(try PayloadTemplate(["e": ["n": "$$"]]).constant == Array(#"{"e":{"n":"$"}}"#.utf8))
    let template = try PayloadTemplate(["e": ["n": "$v", "m": "$w$v"]])
    #expect(template.constant == nil)
    #expect(Set(template.variables) == ["v", "w"])
  }

  @Test(
    "A '$' without a name in a template causes an error",
    arguments: ["$", "a$ b", "$1", "$$$", "$-"])
  func lone(text: String) {
    #expect(throws: PayloadTemplateError.self) { try PayloadTemplate(["e": ["n": .string(text)]]) }
  }

  @Test("A template can be filled from a truncated state without a crash")
  func garbage() throws {
    let template = try PayloadTemplate(["e": ["n": "$v"]])
    let whole = Array(#"{"s":{"v":"a\"","w":[1]}}"#.utf8)
    for count in 0..<whole.count {
      #expect(!template.render(state: Array(whole.prefix(count))).isEmpty)
    }
    #expect(!template.render(state: Array(#"{"s":{"v\"#.utf8)).isEmpty)
  }
}
