import CYAML
import PipeWire

/// Reads YAML text into a tree.
///
/// libyaml parses the syntax. Unquoted scalars are interpreted according to YAML 1.2, so JSON is a
/// subset. A text must contain one document, and may start with a byte-order mark. An alias becomes
/// a copy of its anchor's node; the total size of all copies is limited. `${…}` is text, even in
/// flow style, where YAML would otherwise read a mapping.
package enum YAMLDocument {
  /// The maximum number of nodes in a document, including the copies for aliases.
  package static let maximumNodeCount = 100_000
  /// The maximum nesting depth of a document.
  package static let maximumDepth = 64

  /// Reads the only document of a text; returns `nil` if the text contains no document.
  package static func parse(_ text: [UInt8]) throws(YAMLError) -> YAMLNode? {
    // The byte-order mark is removed, since it does not count as a column of the first line.
    let text = text.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(text.dropFirst(3)) : text
    if let offset = firstInvalidByte(of: text) {
      throw YAMLError(
        position: TextPosition(ofByte: offset, in: text), code: .notUTF8,
        message: "invalid UTF-8: byte \(text[offset]); save the file as UTF-8")
    }
    let mask = VariableMask(text)
    var composer = YAMLComposer(events: YAMLEvents(mask.text), mask: mask)
    return try composer.document()
  }

  private static func firstInvalidByte(of text: [UInt8]) -> Int? {
    if String(validating: text, as: UTF8.self) != nil { return nil }
    var decoder = UTF8()
    var bytes = text.makeIterator()
    var offset = 0
    while case .scalarValue(let scalar) = decoder.decode(&bytes) {
      offset += UTF8.width(scalar)
    }
    return min(offset, text.count - 1)
  }
}

/// Builds the tree of one document from its parser events.
private struct YAMLComposer {
  let events: YAMLEvents
  let mask: VariableMask
  private var anchors: [String: (node: YAMLNode, nodeCount: Int)] = [:]
  private var nodeCount = 0

  init(events: YAMLEvents, mask: VariableMask) {
    self.events = events
    self.mask = mask
  }

  mutating func document() throws(YAMLError) -> YAMLNode? {
    _ = try events.next()
    guard case .documentStart = try events.next().event else { return nil }
    let root = try node(try events.next(), depth: 0)
    _ = try events.next()
    let (event, mark) = try events.next()
    guard case .streamEnd = event else {
      throw YAMLError(
        position: mark,
        message: "a second YAML document starts here, but a file has one document; remove the "
          + "'---', or move the rest to another file")
    }
    return root
  }

  private mutating func node(
    _ head: (event: YAMLEvents.Event, mark: TextPosition), depth: Int
  ) throws(YAMLError) -> YAMLNode {
    let (event, mark) = head
    guard depth < YAMLDocument.maximumDepth else {
      throw YAMLError(
        position: mark,
        message: "nested more than \(YAMLDocument.maximumDepth) levels deep; use fewer levels")
    }
    try count(1, at: mark)
    let nodeCountBefore = nodeCount - 1
    let content: YAMLNode.Content
    let name: String?
    switch event {
    case .scalar(let text, let isPlain, let tag, let anchor):
      let isText = try isStringTag(tag, kind: "scalar", at: mark)
      content = .scalar(
        YAMLScalar(text: mask.restoredText(from: text), isPlain: isPlain && !isText))
      name = anchor
    case .sequenceStart(let tag, let anchor):
      _ = try isStringTag(tag, kind: "seq", at: mark)
      content = .sequence(try elements(depth: depth + 1))
      name = anchor
    case .mappingStart(let tag, let anchor):
      _ = try isStringTag(tag, kind: "map", at: mark)
      content = .mapping(try entries(depth: depth + 1))
      name = anchor
    case .alias(let anchor):
      return try copy(of: anchor, at: mark)
    case .streamStart, .streamEnd, .documentStart, .documentEnd, .sequenceEnd, .mappingEnd:
      throw YAMLError(position: mark, message: "invalid YAML: missing value; add a value")
    }
    let node = YAMLNode(content: content, position: mark)
    if let name { anchors[name] = (node, nodeCount - nodeCountBefore) }
    return node
  }

  private mutating func elements(depth: Int) throws(YAMLError) -> [YAMLNode] {
    var elements: [YAMLNode] = []
    while true {
      let head = try events.next()
      if case .sequenceEnd = head.event { return elements }
      elements.append(try node(head, depth: depth))
    }
  }

  private mutating func entries(depth: Int) throws(YAMLError) -> [YAMLEntry] {
    var entries: [YAMLEntry] = []
    while true {
      let head = try events.next()
      if case .mappingEnd = head.event { return entries }
      let key = try node(head, depth: depth)
      guard case .scalar(let scalar) = key.content else {
        throw YAMLError(
          position: head.mark, message: "a key must be plain text, not \(key.summary)")
      }
      let value = try node(try events.next(), depth: depth)
      entries.append(
        YAMLEntry(
          key: scalar.text, isKeyPlain: scalar.isPlain, keyPosition: head.mark, value: value))
    }
  }

  private mutating func copy(of anchor: String, at mark: TextPosition) throws(YAMLError) -> YAMLNode
  {
    // An anchor is known only after the end of its node, so a node cannot contain itself.
    guard let (node, nodeCount) = anchors[anchor] else {
      throw YAMLError(
        position: mark,
        message:
          "unknown alias '*\(anchor)': no value before it has the anchor '&\(anchor)'; define the "
          + "anchor first")
    }
    try count(nodeCount, at: mark)
    return node
  }

  private mutating func count(_ parts: Int, at mark: TextPosition) throws(YAMLError) {
    nodeCount += parts
    guard nodeCount <= YAMLDocument.maximumNodeCount else {
      throw YAMLError(
        position: mark,
        message: "the document has more than \(YAMLDocument.maximumNodeCount) YAML nodes, with its "
          + "aliases expanded; shorten the document")
    }
  }

  /// Returns whether a tag declares that an unquoted scalar is text. Throws an error for a tag of
  /// another type.
  private func isStringTag(
    _ tag: String?, kind: String, at mark: TextPosition
  ) throws(YAMLError) -> Bool {
    guard let tag else { return false }
    let core = "tag:yaml.org,2002:"
    if kind == "scalar", tag == "!" || tag == core + "str" { return true }
    if tag == core + kind { return false }
    throw YAMLError(position: mark, message: "unknown tag '\(tag)'; remove it")
  }
}

/// The reason why a text could not be read as YAML, with its location.
package struct YAMLError: Error, Sendable {
  package var position: TextPosition
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

  // libyaml keeps pointers to the parser and to the text, so neither may move in memory.
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

  /// Returns the next event and the location where it starts.
  func next() throws(YAMLError) -> (event: Event, mark: TextPosition) {
    var event = yaml_event_t()
    guard yaml_parser_parse(parser, &event) == 1 else { throw error() }
    defer { yaml_event_delete(&event) }
    return (Self.translate(event), TextPosition(event.start_mark))
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
    let problem = parser.pointee.problem.map { String(cString: $0) } ?? "unexpected end of file"
    guard parser.pointee.error != YAML_READER_ERROR else {
      let mark = TextPosition(ofByte: parser.pointee.problem_offset, in: input)
      return YAMLError(position: mark, message: "invalid YAML: \(problem); remove the character")
    }
    let mark = TextPosition(parser.pointee.problem_mark)
    if input[safe: parser.pointee.problem_mark.byteOffset(in: input)] == UInt8(ascii: "\t") {
      return YAMLError(
        position: mark, message: "invalid YAML: tabs cannot indent a line; use spaces")
    }
    let context = parser.pointee.context.map { String(cString: $0) + ", " } ?? ""
    return YAMLError(
      position: mark,
      message: "invalid YAML: \(context)\(problem); check indentation, brackets, quotes and colons "
        + "here and in the lines above")
  }
}

extension TextPosition {
  fileprivate init(_ mark: yaml_mark_t) {
    self.init(line: mark.line + 1, column: mark.column + 1)
  }

  /// Makes the location of a byte in UTF-8 text. The text from this byte on may be invalid UTF-8.
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
  /// Returns the byte offset of the location. libyaml's own index is not suitable, since it counts
  /// characters.
  fileprivate func byteOffset(in text: UnsafeMutableBufferPointer<UInt8>) -> Int {
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
