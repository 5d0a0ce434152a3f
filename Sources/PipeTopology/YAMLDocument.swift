import PipeWire

/// Reads YAML text into a tree.
///
/// The syntax is libyaml's; plain scalars resolve by YAML 1.2. JSON is a subset. A file holds one
/// document, and may start with a byte-order mark. Aliases stand for a copy of their anchor; all
/// copies together are bounded. `${…}` is text, also in flow style, where YAML would see a mapping.
package enum YAMLDocument {
  /// Parts of a document, aliases expanded, before it is refused.
  package static let nodeLimit = 100_000
  /// Nesting before a document is refused.
  package static let depthLimit = 64

  /// Reads the only document of a text; `nil` where there is none.
  package static func parse(_ text: [UInt8]) throws(YAMLError) -> YAMLNode? {
    // The mark has no place in a line: columns count behind it.
    let text = text.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(text.dropFirst(3)) : text
    if let offset = firstInvalidByte(of: text) {
      throw YAMLError(
        mark: SourceMark(ofByte: offset, in: text), code: .notUTF8,
        message: "byte \(text[offset]) is not UTF-8; save the file as UTF-8")
    }
    let disguise = VariableDisguise(text)
    var composer = YAMLComposer(events: YAMLEvents(disguise.text), disguise: disguise)
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

/// Builds the tree of one document from its events.
private struct YAMLComposer {
  let events: YAMLEvents
  let disguise: VariableDisguise
  private var anchors: [String: (node: YAMLNode, size: Int)] = [:]
  private var size = 0

  init(events: YAMLEvents, disguise: VariableDisguise) {
    self.events = events
    self.disguise = disguise
  }

  mutating func document() throws(YAMLError) -> YAMLNode? {
    _ = try events.next()
    guard case .documentStart = try events.next().event else { return nil }
    let root = try node(try events.next(), depth: 0)
    _ = try events.next()
    let (event, mark) = try events.next()
    guard case .streamEnd = event else {
      throw YAMLError(
        mark: mark,
        message: "a second document starts here; a file holds one topology, so "
          + "remove the '---' or move the rest into a file of its own")
    }
    return root
  }

  private mutating func node(
    _ head: (event: YAMLEvents.Event, mark: SourceMark), depth: Int
  ) throws(YAMLError) -> YAMLNode {
    let (event, mark) = head
    guard depth < YAMLDocument.depthLimit else {
      throw YAMLError(
        mark: mark,
        message: "this is nested more than \(YAMLDocument.depthLimit) levels deep; flatten it")
    }
    try count(1, at: mark)
    let sizeBefore = size - 1
    let content: YAMLNode.Content
    let name: String?
    switch event {
    case .scalar(let text, let isPlain, let tag, let anchor):
      let isText = try isStringTag(tag, kind: "scalar", at: mark)
      content = .scalar(
        YAMLScalar(text: disguise.removed(from: text), isPlain: isPlain && !isText))
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
      throw YAMLError(mark: mark, message: "this is not YAML: a value is missing here; add it")
    }
    let node = YAMLNode(content: content, mark: mark)
    if let name { anchors[name] = (node, size - sizeBefore) }
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
        throw YAMLError(mark: head.mark, message: "a key must be plain text, not \(key.summary)")
      }
      let value = try node(try events.next(), depth: depth)
      entries.append(
        YAMLEntry(
          key: scalar.text, isKeyPlain: scalar.isPlain, keyMark: head.mark, value: value))
    }
  }

  private mutating func copy(of anchor: String, at mark: SourceMark) throws(YAMLError) -> YAMLNode {
    // An anchor is known only once its node has ended, so a node cannot contain itself.
    guard let (node, size) = anchors[anchor] else {
      throw YAMLError(
        mark: mark,
        message: "alias '*\(anchor)' has no anchor '&\(anchor)' that ends before it; "
          + "define the anchor first")
    }
    try count(size, at: mark)
    return node
  }

  private mutating func count(_ parts: Int, at mark: SourceMark) throws(YAMLError) {
    size += parts
    guard size <= YAMLDocument.nodeLimit else {
      throw YAMLError(
        mark: mark,
        message: "the document has more than \(YAMLDocument.nodeLimit) parts, its "
          + "aliases expanded; shorten it")
    }
  }

  /// Whether a tag makes a plain scalar text; tags of other kinds are refused.
  private func isStringTag(
    _ tag: String?, kind: String, at mark: SourceMark
  ) throws(YAMLError) -> Bool {
    guard let tag else { return false }
    let core = "tag:yaml.org,2002:"
    if kind == "scalar", tag == "!" || tag == core + "str" { return true }
    if tag == core + kind { return false }
    throw YAMLError(mark: mark, message: "tag '\(tag)' is not known; remove it")
  }
}
