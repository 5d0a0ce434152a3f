import PipeClient
import Testing

private enum Size: CaseIterable { case small, medium, large }

@Suite("A picker and the focus of a form")
struct TerminalPickerTests {
  @Test(
    "Keys pick an option within the picker",
    arguments: [
      ([.right], .medium), ([.right, .right, .right], .large), ([.left], .small),
      ([.end], .large), ([.end, .left], .medium), ([.end, .home], .small),
    ] as [([Key], Size)])
  private func picks(keys: [Key], size: Size) {
    var picker = TerminalPicker(Size.small)
    for key in keys { #expect(picker.press(key) == true) }
    #expect(picker.selected == size)
    for key in [Key.enter, .up, .character("l")] { #expect(picker.press(key) == false) }
    #expect(picker.selected == size)
  }

  @Test("A picker marks the picked option, and shows only that option if it is narrow")
  func drawn() {
    let picker = TerminalPicker(Size.medium)
    #expect(picker.line(columns: 40).description == " small [medium] large ")
    #expect(picker.line(columns: 12).description == "‹[medium]›")
    for columns in 0...24 { #expect(picker.line(columns: columns).width <= columns) }
    let names = picker.line(columns: 40) { $0 == .small ? "S" : "M" }
    #expect(names.description == " S [M] M ")
  }

  @Test("Tab moves from field to field, and from the last field to the first")
  func focus() {
    var focus = TerminalFocus(Size.small)
    for expected in [Size.medium, .large, .small] {
      #expect(focus.press(.tab) == true)
      #expect(focus.field == expected)
    }
    #expect(focus.press(.backTab) == true)
    #expect(focus.field == .large)
    for key in [Key.enter, .right] { #expect(focus.press(key) == false) }
  }
}
