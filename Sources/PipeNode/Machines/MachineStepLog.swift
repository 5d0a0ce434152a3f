import PipeMachines
import PipeSupport
import PipeWire

/// Writes the steps of a machine to the log of a recorded run: each step with its event, the origin
/// of the event, the events that the step has sent, and the hash of the state. Also writes the
/// state every 256 steps, and after an asynchronous transition.
final class MachineStepLog<Hosted: Machine> {
  private let log: StepLog
  private let lines: LineBuffer
  private let core: MachineCore<Hosted>
  private let steps: MachineSteps<Hosted>
  private let requests: MachineRequests<Hosted>
  private let pipes: MachinePipes<Hosted>
  private let machineParticipant: MachineParticipant<Hosted>
  private let hash: StateHash
  // Run-time exclusivity checks would slow down each event, and only the loop's thread has access.
  /// The version of the last step.
  @exclusivity(unchecked)
  private var lastVersion: UInt64
  @exclusivity(unchecked)
  private var stepCount: UInt64 = 0
  /// Whether the line of a step has been begun, and is not completed.
  @exclusivity(unchecked)
  private var isInStep = false
  /// The JSON of the event that is being written. The buffer is reused for each event.
  @exclusivity(unchecked)
  private var eventText: [UInt8] = []
  /// The events that this step has sent so far.
  private let sentText = LineBuffer()

  /// The interval at which the log contains the whole state. Unit: steps.
  private static var stepsPerState: UInt64 { 256 }

  /// Writes the first line, with the state in which this process begins.
  @export(interface)
  init(
    in log: StepLog, _ core: MachineCore<Hosted>, _ steps: MachineSteps<Hosted>,
    _ requests: MachineRequests<Hosted>, _ pipes: MachinePipes<Hosted>,
    _ machineParticipant: MachineParticipant<Hosted>
  ) {
    self.log = log
    lines = log.pendingLines
    self.core = core
    self.steps = steps
    self.requests = requests
    self.pipes = pipes
    self.machineParticipant = machineParticipant
    hash = core.states.stateHash
    lastVersion = core.engine.settledVersion
    log.lastTime = WallClock.nanoseconds
    writeHeader()
  }

  private func writeHeader() {
    lines.reserve()
    lines.append(#"{"node":"#)
    lines.append(JSONValue.string(log.node).bytes)
    lines.append(#","incarnation":"#)
    lines.append(log.incarnation)
    lines.append(#","version":"#)
    lines.append(lastVersion)
    lines.append(#","begins":"#)
    let state = core.stateBytes
    lines.append(state.isEmpty ? Array("null".utf8) : state)
    lines.append(#","hash":""#)
    lines.append(hexadecimal: core.stateHash(by: hash) ?? 0)
    lines.append(#"","hashing":""#)
    lines.append(name: hash.rawValue)
    lines.append(#"","schema":"#)
    lines.append(UInt64(Hosted.schema))
    lines.append(#","time":"#)
    lines.append(log.lastTime)
    lines.append("}\n")
  }

  // MARK: Lines for steps

  /// Begins the line of a step that the machine is about to take.
  func willTakeStep(on event: Hosted.Event?) {
    stepCount += 1
    isInStep = true
    lines.reserve()
    lines.append(#"{"step":"#)
    lines.append(stepCount)
    guard let event else { return }
    lines.append(#","event":"#)
    append(event)
  }

  private func append(_ event: Hosted.Event) {
    eventText.removeAll(keepingCapacity: true)
    do { try core.events.encode(event, into: &eventText) } catch {
      return lines.append("null")
    }
    lines.append(eventText)
  }

  func recordSentEvent(
    _ pipe: String, _ stream: UInt64, _ number: UInt64, _ event: ArraySlice<UInt8>
  ) {
    sentText.reserve()
    if sentText.count > 0 { sentText.append(",") }
    sentText.append(pipe: pipe, stream, number)
    sentText.append(",")
    sentText.append(event)
    sentText.append("]")
    if isInStep { return }
    // The entry into the initial state is not a step, so its events have a line of their own.
    lines.reserve()
    lines.append(#"{"sent":["#)
    endSent()
    appendTime(WallClock.nanoseconds)
    lines.append("}\n")
  }

  private func endSent() {
    lines.append(sentText.text)
    lines.append("]")
    sentText.removeAll()
  }

  /// Completes the line of a step that the machine has taken.
  func didTakeStep() {
    guard isInStep else { return }
    isInStep = false
    let version = core.engine.version
    if version != lastVersion &+ 1 {
      lines.append(#","version":"#)
      lines.append(version)
    }
    lastVersion = version
    appendTime(steps.publishedStep.time)
    appendOrigin()
    if core.engine.trace.isInternal { lines.append(#","entry":"internal""#) }
    if sentText.count > 0 {
      lines.append(#","sent":["#)
      endSent()
    }
    if let state = core.stateHash(by: hash) {
      lines.append(#","hash":""#)
      lines.append(hexadecimal: state)
      lines.append("\"")
      if stepCount % Self.stepsPerState == 0 || core.engine.trace.isAsynchronous {
        lines.append(#","state":"#)
        lines.append(core.stateBytes)
      }
    }
    lines.append("}\n")
  }

  /// Writes the time since the last line.
  private func appendTime(_ time: Int64) {
    lines.append(#","after":"#)
    lines.append(time &- log.lastTime)
    log.lastTime = time
  }

  private func appendOrigin() {
    if let transaction = machineParticipant.currentTransaction {
      lines.append(#","transaction":""#)
      lines.append(transaction.epoch)
      lines.append(".")
      lines.append(transaction.sequence)
      lines.append("\"")
    } else if pipes.appendSource(to: lines) {
      return
    } else if let request = requests.currentRequest {
      append(request)
    } else if steps.publishedStep.cause == "effect" {
      lines.append(#","effect":"#)
      lines.append(core.engine.trace.effectVersion)
    } else {
      lines.append(#","cause":"#)
      lines.append(JSONValue.string(steps.publishedStep.cause).bytes)
    }
  }

  private func append(_ request: RequestKey) {
    lines.append(#","request":["#)
    lines.append(request.client)
    lines.append(",")
    lines.append(request.id)
    lines.append("]")
  }

  // MARK: Lines for events without a step

  /// Writes the line of an event that the machine has ignored.
  @export(interface)
  func logIgnored(_ event: Hosted.Event) {
    lines.reserve()
    lines.append(#"{"ignored":"#)
    append(event)
    appendTime(WallClock.nanoseconds)
    appendOrigin()
    lines.append("}\n")
  }

  /// Writes the line of an event that the machine has refused or postponed.
  @export(interface)
  func logRefused(_ input: RefusedInput) {
    lines.reserve()
    lines.append(#"{"refused":"#)
    lines.append(JSONValue.string(input.reason).bytes)
    lines.append(#","event":"#)
    lines.append(input.event.bytes)
    appendTime(WallClock.nanoseconds)
    if input.isPostponed { lines.append(#","postponed":true"#) }
    switch input.origin {
    case .pipe(let pipe, let stream, let number):
      lines.append(#","source":"#)
      lines.append(pipe: pipe, stream, number)
      lines.append("]")
    case .request(let key): append(key)
    }
    lines.append("}\n")
  }
}
