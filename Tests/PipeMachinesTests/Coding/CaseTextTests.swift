import PipeMachines
import Testing

@Suite("Cases as text")
struct CaseTextTests {
  @Test(
    "A state is written as in Swift code",
    arguments: [
      (#""closed""#, "closed"),
      (#"{"closed":{}}"#, "closed"),
      (#"{"closing":{"persons":3}}"#, "closing(persons: 3)"),
      (#"{"moving":{"to":2,"from":1}}"#, "moving(from: 1, to: 2)"),
      (#"{"named":{"name":"a \"b\""}}"#, #"named(name: "a \"b\"")"#),
      (#"{"pair":{"_1":2,"_0":true}}"#, "pair(true, 2)"),
      (
        #"{"all":{"x":1,"_10":10,"_2":2,"_name":0}}"#,
        "all(2, 10, _name: 0, x: 1)"
      ),
      (#"{"door":{"state":{"closing":{"persons":3}}}}"#, "door(state: closing(persons: 3))"),
      (
        #"{"list":{"items":[1,null,{"a":{}}],"map":{"k":1,"l":2}}}"#,
        "list(items: [1, nil, a], map: [k: 1, l: 2])"
      ),
      (#"{"empty":{"map":{}}}"#, "empty(map: [:])"),
      ("[1,2]", "[1,2]"), ("3", "3"), (#"{"a":1}"#, #"{"a":1}"#), ("{}", "{}"),
    ] as [(String, String)])
  func caseText(json: String, text: String) throws {
    #expect(try JSONValue(parsing: json.utf8).caseText == text)
  }

  @Test(
    "A struct is written as its fields in their declared order, not as an enum case",
    arguments: [
      (#"{"turns":{"count":3}}"#, ["turns"], "(turns: [count: 3])"),
      (#"{"turns":{"count":3}}"#, nil, "turns(count: 3)"),
      (#"{"b":1,"a":{"idle":{}},"z":null}"#, ["b", "a"], "(b: 1, a: idle, z: nil)"),
      (#"{"a":"x"}"#, ["b", "a"], #"(a: "x")"#), ("{}", [], "()"), (#""closed""#, [], "closed"),
    ] as [(String, [String]?, String)])
  func stateText(json: String, fields: [String]?, text: String) throws {
    #expect(try JSONValue(parsing: json.utf8).stateText(fields: fields) == text)
  }

  private let events = [
    CaseDescription(
      name: "call",
      fields: [.init(name: "floor", type: "Int"), .init(name: "note", type: "Optional<String>")]),
    CaseDescription(name: "start"),
  ]

  @Test(
    "JSON that matches a case is accepted",
    arguments: [
      #""start""#, #"{"start":{}}"#, #"{"call":{"floor":3}}"#,
      #"{"call":{"floor":3,"note":"fast"}}"#,
    ])
  func fits(json: String) throws {
    let json = try JSONValue(parsing: json.utf8)
    #expect(events.problem(with: json, noun: "event", owner: "machine 'Motor'") == nil)
  }

  @Test(
    "JSON that matches no case causes an error that says what to write",
    arguments: [
      ("[1]", #"[1] is not a valid event; write a label, or {"label":{"field":value}}"#),
      (
        #""strat""#,
        "machine 'Motor' has no event 'strat'; it has 'call', 'start'. Did you mean 'start'?"
      ),
      (
        #""call""#,
        "field 'floor' of event 'call(floor: Int, note: Optional<String>)' is missing; "
          + #"write '{"call":{"floor":1,"note":"text"}}'"#
      ),
      (
        #"{"call":{"floor":"x"}}"#,
        "field 'floor' of event 'call(floor: Int, note: Optional<String>)' cannot be \"x\"; "
          + "write a value of type Int"
      ),
      (
        #"{"start":{"now":true}}"#, "event 'start' has no field 'now'; it has none"
      ),
    ] as [(String, String)])
  func problems(json: String, text: String) throws {
    let json = try JSONValue(parsing: json.utf8)
    #expect(events.problem(with: json, noun: "event", owner: "machine 'Motor'") == text)
  }
}
