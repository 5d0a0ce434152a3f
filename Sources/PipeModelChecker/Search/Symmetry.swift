/// A symmetry of a model: a renaming of components, local states and symbols that maps every step
/// of the model to a step of the model.
///
/// A search with symmetries visits one state of each group of states that the symmetries map to
/// each other. The caller guarantees that
/// - the symmetries and the identity form a group,
/// - each symmetry maps the initial state to itself,
/// - each symmetry maps each vector to a vector whose cells are renamed in the same way, and
/// - each symmetry maps each observation to an observation that the search watches in the same way.
struct Symmetry: Sendable {
  /// The image of each component.
  let componentImages: [Int]
  /// The inverse of `componentImages`: for each component, the component whose image it is.
  let componentSources: [Int]
  /// For each component, the images of its local states. Missing local states keep their numbers.
  fileprivate(set) var localStates: [[Int]]
  /// For each queue, the images of its symbols. Missing symbols are mapped to themselves.
  fileprivate(set) var symbols: [Int: [Int: Int]] = [:]

  init(_ images: [Int]) {
    self.componentImages = images
    var sources = images
    for (component, image) in images.enumerated() { sources[image] = component }
    self.componentSources = sources
    localStates = images.map { _ in [] }
  }

  func image(of state: Int, in component: Int) -> Int {
    state < localStates[component].count ? localStates[component][state] : state
  }

  mutating func setImage(ofState state: Int, in component: Int, to image: Int) {
    while localStates[component].count <= state {
      localStates[component].append(localStates[component].count)
    }
    localStates[component][state] = image
  }

  mutating func setImage(ofSymbol symbol: Int, in queue: Int, to image: Int) {
    symbols[queue, default: [:]][symbol] = image
  }

  /// Returns the image of a state, which is given by the local state of each component.
  func image(of state: [Int]) -> [Int] {
    componentSources.map { image(of: state[$0], in: $0) }
  }

  /// Returns the image of the contents of a queue.
  func image(ofContents contents: [Int], in queue: Int) -> [Int] {
    guard let symbols = symbols[queue] else { return contents }
    return contents.map { symbols[$0] ?? $0 }
  }
}

extension ExplorationModel {
  /// Returns the representative of a state and all its images: the first of these states in the
  /// lexicographic order of the local states' numbers.
  func representative(of state: [Int]) -> [Int] {
    symmetries.reduce(state) { first, symmetry in
      let image = symmetry.image(of: state)
      return image.lexicographicallyPrecedes(first) ? image : first
    }
  }
}

/// The symmetries of a compiled model, as flat tables.
final class SymmetryTables {
  private let componentCount: Int
  private let symmetryCount: Int
  /// For each symmetry and each component, the component that the symmetry maps to this component.
  private let componentSources: FlatTable<Int>
  /// For each symmetry and row of the compiled model, the image of the local state.
  private let rowImages: FlatTable<UInt32>
  private let rowCount: Int
  private let fields: [FieldLayout.Field]

  init(_ model: ExplorationModel, _ program: borrowing CompiledModel) {
    componentCount = model.componentCount
    symmetryCount = model.symmetries.count
    rowCount = program.rowCount
    fields = program.layout.fields
    componentSources = FlatTable(model.symmetries.flatMap(\.componentSources))
    rowImages = FlatTable(repeating: 0, count: model.symmetries.count * program.rowCount)
    update(from: model, program)
  }

  /// Reads the images of all local states again.
  func update(from model: ExplorationModel, _ program: borrowing CompiledModel) {
    for (number, symmetry) in model.symmetries.enumerated() {
      for component in 0..<componentCount {
        let first = number * rowCount + Int(program.rowLookups[component].base)
        for state in 0..<model.stateCount(of: component) {
          rowImages.baseAddress[first + state] = UInt32(symmetry.image(of: state, in: component))
        }
      }
    }
  }

  /// The memory of the tables. Unit: bytes.
  var byteCount: Int { 4 * rowImages.count + 8 * componentSources.count }

  /// Replaces a state by the representative of the state and its images.
  /// - Parameter buffers: Memory for three numbers per component.
  /// - Returns: Whether the state has changed.
  func replaceByRepresentative(
    _ words: UnsafeMutablePointer<UInt64>, _ program: CompiledModel,
    _ buffers: UnsafeMutablePointer<UInt32>
  ) -> Bool {
    let state = buffers
    var first = buffers + componentCount
    var image = first + componentCount
    for component in 0..<componentCount {
      state[component] = program.rowLookups[component].local(in: words)
      first[component] = state[component]
    }
    var hasChanged = false
    for symmetry in 0..<symmetryCount {
      guard isSmaller(symmetry, state, than: first, image, program) else { continue }
      swap(&first, &image)
      hasChanged = true
    }
    guard hasChanged else { return false }
    for word in 0..<program.stateWordCount { words[word] = 0 }
    for component in 0..<componentCount {
      let field = fields[component]
      words[field.wordIndex] |= UInt64(first[component]) << UInt64(field.shift)
    }
    return true
  }

  /// Writes the image of a state to `image`, and returns whether the image comes before `other`.
  /// Stops early if the image comes after `other`.
  @inline(__always)
  private func isSmaller(
    _ symmetry: Int, _ state: UnsafePointer<UInt32>, than other: UnsafePointer<UInt32>,
    _ image: UnsafeMutablePointer<UInt32>, _ program: CompiledModel
  ) -> Bool {
    var isSmaller = false
    for component in 0..<componentCount {
      let source = componentSources[symmetry &* componentCount &+ component]
      let row = Int(program.rowLookups[source].base) &+ Int(state[source])
      let local = rowImages[symmetry &* rowCount &+ row]
      image[component] = local
      if isSmaller || local == other[component] { continue }
      if local > other[component] { return false }
      isSmaller = true
    }
    return isSmaller
  }
}
