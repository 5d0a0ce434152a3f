import PipeClient
import Testing

@Suite("A scrolling list on a terminal")
struct TerminalListTests {
  @Test(
    "Keys select a row within the list",
    arguments: [
      ([], 0), ([.down, .down], 2), ([.down, .up, .up], 0), ([.pageDown], 3), ([.end], 9),
      ([.end, .down], 9), ([.end, .pageUp], 6), ([.pageDown, .home], 0),
      ([.pageDown, .pageDown, .pageDown, .pageDown], 9),
    ] as [([Key], Int)])
  func selects(keys: [Key], row: Int) {
    var list = TerminalList()
    for key in keys { #expect(list.press(key, of: 10, height: 3) == true) }
    #expect(list.selected(of: 10) == row)
  }

  @Test("The rows scroll only as far as the selected row requires")
  func scrolls() {
    var list = TerminalList()
    func press(_ keys: Key...) -> Range<Int> {
      for key in keys { _ = list.press(key, of: 10, height: 3) }
      return list.visibleRows(of: 10, height: 3)
    }
    #expect(press() == 0..<3)
    #expect(press(.down, .down) == 0..<3)
    #expect(press(.down) == 1..<4)
    #expect(press(.up, .up) == 1..<4)
    #expect(press(.up) == 0..<3)
    #expect(press(.end) == 7..<10)
    #expect(press(.up) == 7..<10)
    #expect(press(.pageUp) == 5..<8)
  }

  @Test("The selected row is visible and no line is wasted, whatever keys are pressed")
  func always() {
    let keys: [Key] = [.up, .down, .down, .pageUp, .pageDown, .home, .end]
    var list = TerminalList()
    var number = 1
    for _ in 1...5_000 {
      // Rows are added and removed, and the terminal is resized.
      number = number &* 48_271 % 0x7FFF_FFFF
      let (count, height) = (number % 13, number / 13 % 7)
      _ = list.press(keys[number / 91 % keys.count], of: count, height: height)
      let window = list.visibleRows(of: count, height: height)
      #expect(window.count == min(count, height))
      #expect(window.lowerBound >= 0 && window.upperBound <= count)
      if let selected = list.selected(of: count), height > 0 {
        #expect(window.contains(selected))
      }
      #expect((list.selected(of: count) == nil) == (count == 0))
    }
  }

  @Test("Only visible rows are drawn, and the selected row is marked")
  func lines() {
    var list = TerminalList()
    list.select(4, of: 6, height: 3)
    var made: [Int] = []
    let lines = list.lines(of: 6, height: 3) { row in
      made.append(row)
      return StyledLine("row \(row)")
    }
    #expect(lines.map(\.description) == ["  row 2", "  row 3", "▶ row 4"])
    #expect(made == [2, 3, 4])
    #expect(list.lines(of: 0, height: 3) { _ in "none" } == [])
  }

  @Test(
    "A list ignores keys that do not move its selection",
    arguments: [Key.enter, .left, .character("j"), .tab])
  func others(key: Key) {
    var list = TerminalList()
    #expect(list.press(key, of: 10, height: 3) == false)
    #expect(list == TerminalList())
  }
}
