import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("The form for an event", .timed)
struct SendFormTests {
  private static let events = [
    CaseDescription(name: "open"),
    CaseDescription(
      name: "enter",
      fields: [
        .init(name: "persons", type: "Int"), .init(name: "name", type: "String"),
        .init(name: "badge", type: "Optional<Int>"),
      ]),
    CaseDescription(name: "paint", fields: [.init(name: "color", type: "Color")]),
  ]

  /// Presses a key for each character: `⏎` is Enter, `⇥` Tab, `⎋` Esc.
  private func press(_ text: String, in form: inout SendForm) -> SendForm.Outcome {
    var outcome = SendForm.Outcome.open
    for character in text {
      let key: Key =
        switch character {
        case "⏎": .enter
        case "⇥": .tab
        case "⎋": .escape
        default: .character(character)
        }
      outcome = form.press(key, height: 10)
    }
    return outcome
  }

  @Test("The form lets a user choose an event, enter values by field type, and send the event")
  func filled() {
    var form = SendForm(to: "door", events: Self.events)
    #expect(press("j⏎", in: &form) == .open && form.event?.name == "enter")
    #expect(press("3⇥Ada⏎", in: &form) == .open && form.focusedLineIndex == 2)
    let whole: JSONValue = ["enter": ["persons": 3, "name": "Ada"]]
    #expect(press("⏎", in: &form) == .send(whole))
    var bare = SendForm(to: "door", events: Self.events)
    #expect(press("⏎", in: &bare) == .send("open"))
    var known = SendForm(to: "door", events: Self.events, event: "paint")
    #expect(press("red⏎", in: &known) == .send(["paint": ["color": "red"]]))
    var structure = SendForm(to: "door", events: Self.events, event: "paint")
    #expect(press("{\"r\":1}⏎", in: &structure) == .send(["paint": ["color": ["r": 1]]]))
  }

  @Test(
    "An invalid value is not sent and is reported at its field",
    arguments: [
      ("three⇥Ada⇥⏎", 0, "'persons' must be Int: 'three' is not valid"),
      ("⇥⇥⏎", 0, "'persons' must be Int: type a value"),
      ("3⇥Ada⇥x⏎", 2, "'badge' must be Optional<Int>"),
    ])
  func wrong(keys: String, line: Int, problem: String) {
    var form = SendForm(to: "door", events: Self.events, event: "enter")
    #expect(press(keys, in: &form) == .open)
    #expect(
      form.focusedLineIndex == line && form.problem?.hasPrefix(problem) == true,
      "\(form.problem ?? "")")
    #expect(press("⇥", in: &form) == .open && form.problem == nil)
  }

  @Test("A number out of range is reported at its field")
  func bounds() {
    var form = SendForm(to: "door", events: Self.events, event: "enter")
    #expect(press("2.5⇥Ada⇥⏎", in: &form) == .open)
    #expect(form.problem?.contains("persons") == true, "\(form.problem ?? "")")
  }

  @Test("Esc goes back to the events, and then leaves the form")
  func left() {
    var form = SendForm(to: "door", events: Self.events, event: "enter")
    #expect(press("4⎋", in: &form) == .open && form.event == nil)
    #expect(press("⎋", in: &form) == .cancelled)
  }
}
