import CYAML
import PipeWire

/// Why a text could not be read as YAML, and where.
package struct YAMLError: Error, Sendable {
  package var mark: SourceMark
  package var code: Diagnostic.Code = .notYAML
  package var message: String
}

/// The events of libyaml's parser over one text.
final class YAMLEvents {
  enum Event {
    case streamStart, streamEnd, documentStart, documentEnd
    case alias(String)
    case scalar(text: String, isPlain: Bool, tag: String?, anchor: String?)
    case sequenceStart(tag: String?, anchor: String?)
    case sequenceEnd
    case mappingStart(tag: String?, anchor: String?)
    case mappingEnd
  }

  // libyaml keeps pointers into both, so neither may move.
  private let parser: UnsafeMutablePointer<yaml_parser_t>
  private let input: UnsafeMutableBufferPointer<UInt8>

  init(_ text: [UInt8]) {
    parser = .allocate(capacity: 1)
    input = .allocate(capacity: text.count)
    _ = input.initialize(from: text)
    guard yaml_parser_initialize(parser) == 1 else { fatalError("libyaml: out of memory") }
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
    yaml_parser_set_input_string(parser, input.baseAddress, input.count)
  }

  deinit {
    yaml_parser_delete(parser)
    parser.deallocate()
    input.deallocate()
  }

  /// The next event, and where it starts.
  func next() throws(YAMLError) -> (event: Event, mark: SourceMark) {
    var event = yaml_event_t()
    guard yaml_parser_parse(parser, &event) == 1 else { throw error() }
    defer { yaml_event_delete(&event) }
    return (Self.translate(event), SourceMark(event.start_mark))
  }

  private static func translate(_ event: yaml_event_t) -> Event {
    switch event.type {
    case YAML_STREAM_START_EVENT: return .streamStart
    case YAML_DOCUMENT_START_EVENT: return .documentStart
    case YAML_DOCUMENT_END_EVENT: return .documentEnd
    case YAML_ALIAS_EVENT: return .alias(text(event.data.alias.anchor) ?? "")
    case YAML_SCALAR_EVENT:
      let scalar = event.data.scalar
      let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
      return .scalar(
        text: String(decoding: bytes, as: UTF8.self),
        isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE,
        tag: text(scalar.tag), anchor: text(scalar.anchor))
    case YAML_SEQUENCE_START_EVENT:
      let start = event.data.sequence_start
      return .sequenceStart(tag: text(start.tag), anchor: text(start.anchor))
    case YAML_SEQUENCE_END_EVENT: return .sequenceEnd
    case YAML_MAPPING_START_EVENT:
      let start = event.data.mapping_start
      return .mappingStart(tag: text(start.tag), anchor: text(start.anchor))
    case YAML_MAPPING_END_EVENT: return .mappingEnd
    default: return .streamEnd
    }
  }

  private static func text(_ bytes: UnsafeMutablePointer<yaml_char_t>?) -> String? {
    bytes.map { String(cString: $0) }
  }

  private func error() -> YAMLError {
    let problem = parser.pointee.problem.map { String(cString: $0) } ?? "it ends too early"
    guard parser.pointee.error != YAML_READER_ERROR else {
      let mark = SourceMark(ofByte: parser.pointee.problem_offset, in: input)
      return YAMLError(mark: mark, message: "this is not YAML: \(problem); remove the character")
    }
    let mark = SourceMark(parser.pointee.problem_mark)
    if input[safe: parser.pointee.problem_mark.index(in: input)] == UInt8(ascii: "\t") {
      return YAMLError(
        mark: mark, message: "this is not YAML: a tab cannot indent a line; use spaces")
    }
    let context = parser.pointee.context.map { String(cString: $0) + ", " } ?? ""
    return YAMLError(
      mark: mark,
      message: "this is not YAML: \(context)\(problem); "
        + "look here and just above for indentation, a bracket, a quote or a colon")
  }
}

extension SourceMark {
  fileprivate init(_ mark: yaml_mark_t) {
    self.init(line: mark.line + 1, column: mark.column + 1)
  }

  /// The place of a byte in UTF-8 text; the text after it may be anything.
  init(ofByte offset: Int, in text: some Collection<UInt8>) {
    var line = 1
    var column = 1
    for byte in text.prefix(offset) {
      if byte == UInt8(ascii: "\n") {
        line += 1
        column = 1
      } else if byte & 0xC0 != 0x80 {
        column += 1
      }
    }
    self.init(line: line, column: column)
  }
}

extension yaml_mark_t {
  /// The byte at this mark: libyaml's own index counts characters.
  fileprivate func index(in text: UnsafeMutableBufferPointer<UInt8>) -> Int {
    var characters = 0
    for (offset, byte) in text.enumerated() where byte & 0xC0 != 0x80 {
      if characters == index { return offset }
      characters += 1
    }
    return text.count
  }
}

extension UnsafeMutableBufferPointer {
  fileprivate subscript(safe index: Int) -> Element? {
    indices.contains(index) ? self[index] : nil
  }
}
