import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The final states, and the retention time of instances in these states.
struct InstanceEndings {
  /// The default retention time. Unit: nanoseconds.
  private static let standardTime: Int64 = 7 * 24 * 3_600 * 1_000_000_000
  /// The tags of the final states.
  let tags: Set<Int>
  /// The time for which an instance is kept after it has ended. Unit: nanoseconds.
  let time: Int64

  init(_ tags: Set<Int>, keptFor time: Duration?) {
    self.tags = tags
    self.time = time.map { $0.wholeMilliseconds * 1_000_000 } ?? Self.standardTime
  }
}

/// The instances of a keyed node: the instances in memory, and the number of all instances in each
/// state.
///
/// A journal, if there is one, contains every instance. When too many instances are in memory, the
/// table evicts instances that have not been used for a long time. A lookup reads an evicted
/// instance from the database. An instance is evicted only if the database contains its current
/// state, so a lookup does not have to write pending records first.
final class InstanceTable<Hosted: Machine> {
  /// The default limit of instances in memory. Unit: instances.
  static var defaultLimit: Int { 100_000 }

  private let journal: Journal?
  private let node: String
  private let incarnation: UInt64
  private let log: NodeLog
  private let limit: Int
  private let states: EventCodec<Hosted.State>
  private let labels = EnumCases<Hosted.State>.names
  @exclusivity(unchecked)
  private var residents: [InstanceKey: Instance<Hosted>] = [:]
  /// The instances in memory. The search for instances to evict visits the instances in this order.
  @exclusivity(unchecked)
  private var ring: [Instance<Hosted>] = []
  @exclusivity(unchecked)
  private var hand = 0
  /// The number of instances in each state, by the state's tag. If the state is a struct, all
  /// instances are counted under tag 0.
  @exclusivity(unchecked)
  private var counts: [Int]
  /// The number of instances in each state that only an earlier version of the machine has, by the
  /// state's name. Such an instance is migrated when it is next used.
  private var formerCounts: [String: Int] = [:]
  @exclusivity(unchecked)
  private var changed: [Instance<Hosted>] = []
  private let endings: InstanceEndings
  /// The instances that have ended, oldest first, in a node without a journal.
  private var ended = Queue<Instance<Hosted>>()
  /// The instances that were removed since the last record.
  @exclusivity(unchecked)
  private var removed: [(id: Int64, key: InstanceKey)] = []
  /// The removed instances that the database may still contain, each with the number of the record
  /// that removes the instance.
  @exclusivity(unchecked)
  private var removedKeys: [InstanceKey: UInt64] = [:]
  /// The number of the last created instance.
  private var lastID: Int64 = 0
  /// The time of the last search for instances to remove. Unit: nanoseconds since 1970.
  private var lastRemoval: Int64 = 0
  /// The number of steps of all instances, since the node was first started.
  @exclusivity(unchecked)
  private(set) var version: UInt64 = 0
  @exclusivity(unchecked)
  private var recordedVersion: UInt64?
  private var firstVersion: UInt64 = 0
  /// The time and the cause of the last step.
  @exclusivity(unchecked)
  private(set) var last: (time: Int64, cause: String) = (WallClock.nanoseconds, "initial")

  /// Reads the counts in the journal. Throws if the counts do not belong to this machine.
  init(
    _ journal: Journal?, node: String, incarnation: UInt64, log: NodeLog, limit: Int?,
    endings: InstanceEndings, states: EventCodec<Hosted.State>
  ) throws {
    self.journal = journal
    self.node = node
    self.incarnation = incarnation
    self.log = log
    // Without a journal, an instance that leaves memory would be lost.
    self.limit = journal == nil ? .max : limit ?? Self.defaultLimit
    self.states = states
    self.endings = endings
    counts = Array(repeating: 0, count: max(1, labels.count))
    guard let record = journal?.contents?.record else { return }
    try restore(record)
  }

  private func restore(_ record: JournalContents.Record) throws {
    guard case .object(let recorded)? = try? JSONValue(parsing: record.state) else {
      throw JournalError.undecodable(
        path: journal?.path ?? "", node: node,
        problem: "state: the journal belongs to a node without 'key'")
    }
    for (label, count) in recorded {
      guard case .integer(let number) = count else { continue }
      if let tag = labels.isEmpty ? 0 : labels.firstIndex(of: label) {
        counts[tag] += Int(clamping: number)
      } else if Hosted.schema == 1 {
        throw JournalError.undecodable(
          path: journal?.path ?? "", node: node,
          problem: "state: the machine has no state '\(label)', in which there are instances")
      } else {
        formerCounts[label] = Int(clamping: number)
      }
    }
    lastID = try journal?.lastInstanceID() ?? 0
    version = record.version
    recordedVersion = version
    firstVersion = version
    last = (record.time, record.cause)
  }

  /// The number of instances.
  var count: Int { counts.reduce(0, +) + formerCounts.values.reduce(0, +) }

  /// The number of instances in memory.
  var residentCount: Int { residents.count }

  /// The number of steps of this process.
  var stepCount: UInt64 { version - firstVersion }

  /// The number of instances by state, as JSON.
  var countsJSON: [UInt8] {
    if labels.isEmpty { return Array("{\"instances\":\(count)}".utf8) }
    if !formerCounts.isEmpty {
      var members = formerCounts.mapValues { JSONValue.integer(Int64($0)) }
      for (tag, count) in counts.enumerated() where count > 0 {
        members[labels[tag]] = .integer(Int64(count))
      }
      return JSONValue.object(members).bytes
    }
    var json = "{"
    for (tag, count) in counts.enumerated() where count > 0 {
      if json.utf8.count > 1 { json += "," }
      json += "\"\(labels[tag])\":\(count)"
    }
    return Array((json + "}").utf8)
  }

  // MARK: Looking up instances

  /// Returns the instance with this key; `nil` if there is none.
  func find(_ key: InstanceKey) throws -> Instance<Hosted>? {
    if let instance = residents[key] {
      instance.isRecent = true
      return instance
    }
    guard removedKeys[key] == nil, let recorded = try journal?.instance(key) else { return nil }
    let instance = Instance<Hosted>(
      key, id: recorded.id, in: try state(recorded.state, recorded.schema, of: key),
      version: recorded.version, time: recorded.time, cause: recorded.cause)
    if recorded.schema != Hosted.schema {
      // All instances whose state is a struct are counted together.
      instance.formerLabel = recorded.label.isEmpty ? "instances" : recorded.label
    }
    keep(instance)
    return instance
  }

  /// Decodes a state that the journal has recorded.
  /// - Parameter schema: The version of the machine that has written the state.
  func state(_ bytes: [UInt8], _ schema: Int, of key: InstanceKey) throws -> Hosted.State {
    do { return try Hosted.decodeState(bytes, schema: schema, by: states) } catch {
      throw JournalError.undecodable(
        path: journal?.path ?? "", node: node,
        problem: error is MigrationError
          ? "instance '\(key)': \(error)" : "state of instance '\(key)' \(error)")
    }
  }

  /// Decrements the number of instances in the state that the journal has recorded as `label`.
  private func removeCount(_ label: String) {
    guard let tag = labels.isEmpty ? 0 : labels.firstIndex(of: label) else {
      let rest = (formerCounts[label] ?? 0) - 1
      formerCounts[label] = rest > 0 ? rest : nil
      return
    }
    counts[tag] -= 1
  }

  private func keep(_ instance: Instance<Hosted>) {
    residents[instance.key] = instance
    instance.position = ring.count
    ring.append(instance)
  }

  /// Removes an instance from memory.
  private func forget(_ instance: Instance<Hosted>) {
    residents[instance.key] = nil
    let last = ring.removeLast()
    guard last !== instance else { return }
    last.position = instance.position
    ring[last.position] = last
  }

  // MARK: Steps of instances

  /// Adds an instance, which enters its initial state.
  func add(_ instance: Instance<Hosted>) {
    lastID += 1
    instance.id = lastID
    keep(instance)
    counts[tag(of: instance.state)] += 1
    noteChange(of: instance)
  }

  /// Notes that an instance has taken a step.
  func entered(_ instance: Instance<Hosted>, _ state: Hosted.State, version: UInt64, cause: String)
  {
    last = (WallClock.nanoseconds, cause)
    instance.time = last.time
    instance.cause = cause
    guard version > instance.version else { return }
    if let label = instance.formerLabel.take() {
      removeCount(label)
    } else {
      counts[tag(of: instance.state)] -= 1
    }
    counts[tag(of: state)] += 1
    instance.state = state
    instance.version = version
    self.version += 1
    noteChange(of: instance)
    if journal == nil, endings.tags.contains(tag(of: state)) { ended.append(instance) }
  }

  /// Removes instances whose retention time is over. Runs at most once a second and, with a
  /// journal, removes a limited number of instances, so that no step waits for long.
  private func removeEnded() throws {
    guard !endings.tags.isEmpty, WallClock.nanoseconds - lastRemoval >= 1_000_000_000 else {
      return
    }
    lastRemoval = WallClock.nanoseconds
    let end = lastRemoval - endings.time
    guard let journal else {
      while let first = ended.first, first.time < end {
        _ = ended.popFirst()
        counts[tag(of: first.state)] -= 1
        forget(first)
      }
      return
    }
    for (id, key, label) in try journal.instances(endedBefore: end, limit: Self.removalLimit) {
      guard removedKeys[key] == nil else { continue }
      if let instance = residents[key] {
        guard instance.id == id, instance.engine == nil, !instance.isChanged, !instance.isLocked
        else { continue }
        forget(instance)
      }
      removeCount(label)
      removed.append((id, key))
      removedKeys[key] = .max
    }
  }

  /// The maximum number of instances that are removed at once. Unit: instances.
  private static var removalLimit: Int { 10_000 }

  private func tag(of state: Hosted.State) -> Int { EnumCases<Hosted.State>.tag(of: state) ?? 0 }

  private func noteChange(of instance: Instance<Hosted>) {
    guard !instance.isChanged else { return }
    instance.isChanged = true
    changed.append(instance)
  }

  // MARK: Recording instances

  var hasUnrecordedChanges: Bool { !changed.isEmpty || recordedVersion == nil }

  func record(into journal: Journal) throws {
    guard hasUnrecordedChanges else { return }
    try removeEnded()
    for (id, key) in removed { try journal.removeInstance(id, key) }
    for instance in changed {
      let state = try states.encode(instance.state)
      guard state.count <= StateSizeLimit.maximumByteCount else {
        journal.marker.requestStateMeasurement()
        throw NodeSetupError(
          "a step of instance '\(instance.key)' produced a state of \(state.count) bytes as JSON; "
            + "the limit is \(StateSizeLimit.maximumByteCount); after a restart, the node repeats its "
            + "last steps and refuses this step")
      }
      let tag = tag(of: instance.state)
      try journal.recordInstance(
        RecordedInstance(
          id: instance.id, key: instance.key, version: instance.version, time: instance.time,
          cause: instance.cause, label: labels.isEmpty ? "" : labels[tag], state: state,
          ended: endings.tags.contains(tag) ? instance.time : nil))
    }
    try journal.recordState(
      to: countsJSON, version: version, steps: version - (recordedVersion ?? 0), cause: last.cause,
      time: last.time, incarnation: incarnation)
  }

  func recorded() {
    recordedVersion = version
    let number = journal?.recordNumbers.last ?? 0
    for (_, key) in removed { removedKeys[key] = number }
    removed.removeAll()
    if journal == nil {
      try? removeEnded()
    } else if !removedKeys.isEmpty {
      let written = journal?.recordNumbers.written ?? 0
      removedKeys = removedKeys.filter { $0.value > written }
    }
    for instance in changed {
      instance.isChanged = false
      instance.recordNumber = number
    }
    changed.removeAll(keepingCapacity: changed.count < 4_096)
    if residents.count > limit { evict() }
  }

  /// Evicts instances that were not used since the last visit. Visits a bounded number of
  /// instances.
  private func evict() {
    let written = journal?.recordNumbers.written ?? 0
    var visits = 2 * (residents.count - limit) + 64
    while residents.count > limit, visits > 0 {
      visits -= 1
      if hand >= ring.count { hand = 0 }
      let instance = ring[hand]
      if instance.isRecent || instance.isChanged || instance.engine != nil || instance.isLocked
        || instance.recordNumber > written
      {
        instance.isRecent = false
        hand += 1
        continue
      }
      forget(instance)
    }
  }
}
