/// Hides from YAML what is special to it between `${` and `}`: in flow style a brace would end the
/// text.
///
/// Each character is replaced by one other, so that all places stay as they are.
struct VariableDisguise {
  /// The text to be read.
  let text: [UInt8]
  /// Whether a character of it stands for another.
  private let isOn: Bool

  /// Characters of a plane for private use, by what they stand for.
  private static let standIns = Dictionary(
    uniqueKeysWithValues: "{}[],:#".utf8.map { ($0, Unicode.Scalar(0x10_FF00 + UInt32($0))!) })
  /// What the UTF-8 of each begins with, and of others in the last part of that plane.
  private static let mark: [UInt8] = [0xF4, 0x8F]

  /// - Parameter text: UTF-8.
  init(_ text: [UInt8]) {
    let spans = Self.spans(of: text)
    // A text that has such characters of its own is left as it is.
    guard !spans.isEmpty, !text.contains(Self.mark) else {
      (self.text, isOn) = (text, false)
      return
    }
    var hidden: [UInt8] = []
    hidden.reserveCapacity(text.count + 8 * spans.count)
    var end = 0
    for span in spans {
      hidden += text[end..<span.lowerBound]
      for byte in text[span] {
        if let standIn = Self.standIns[byte] {
          hidden += UTF8.encode(standIn)!
        } else {
          hidden.append(byte)
        }
      }
      end = span.upperBound
    }
    (self.text, isOn) = (hidden + text[end...], true)
  }

  /// The text as it stands in the file.
  func removed(from text: String) -> String {
    guard isOn, text.utf8.contains(Self.mark[0]) else { return text }
    var shown = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      let byte = UInt8(exactly: Int(scalar.value) - 0x10_FF00)
      if let byte, Self.standIns[byte] != nil {
        shown.append(Unicode.Scalar(byte))
      } else {
        shown.append(scalar)
      }
    }
    return String(shown)
  }

  /// Where there is `{…}` after a dollar, in one line, with the variables inside. A quote may end the text around it.
  private static func spans(of text: [UInt8]) -> [Range<Int>] {
    var spans: [Range<Int>] = []
    // The starts of the variables that are not closed yet.
    var starts: [Int] = []
    for (index, byte) in text.enumerated() {
      switch byte {
      case UInt8(ascii: "{"):
        // A brace that is no variable's belongs to the text around it.
        starts = index > 0 && text[index - 1] == UInt8(ascii: "$") ? starts + [index] : []
      case UInt8(ascii: "}"):
        guard let start = starts.popLast() else { continue }
        if starts.isEmpty { spans.append(start..<index + 1) }
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\""), UInt8(ascii: "'"):
        starts = []
      default: break
      }
    }
    return spans
  }
}
