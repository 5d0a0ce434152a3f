import PipeClient
import PipeJournal
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Backups of the running topology. A separate thread writes the files. Only the pause of the nodes
/// is on the supervisor's thread, so that no process starts or ends unnoticed in the pause.
extension Supervisor {
  /// The maximum duration of a pause.
  private static let pauseLimit: Duration = .milliseconds(500)
  /// How many times a backup tries to read the journals within the limit.
  private static let pauseAttempts = 3

  /// Writes a backup into a file, and answers when the backup is complete.
  func backUp(into file: String, for requester: Requester) {
    if let obstacle = backupObstacle {
      return control.answer(.failed("\(obstacle)"), to: requester)
    }
    isBackingUp = true
    let job = LoopOwned(
      BackupJob(
        of: plan.topology, into: file, topologyFile: plan.topologyFile,
        journals: directories.journals))
    open(job, attempt: 1, for: requester)
  }

  private func open(_ job: LoopOwned<BackupJob>, attempt: Int, for requester: Requester) {
    on(archivist, job, { (job) throws(BackupError) in try job.open() }) { supervisor, result in
      switch result {
      case .success: supervisor.takeCut(job, attempt: attempt, for: requester)
      case .failure(let error): supervisor.endBackup(job, .failure(error), for: requester)
      }
    }
  }

  private var backupObstacle: BackupError? {
    if plan.deployment != nil { return .severalHosts(topology: plan.topology) }
    let reason =
      isBackingUp
      ? "another backup is in progress; try again when it has completed"
      : isUpgrading
        ? TopologyLifecycle.changeInProgress : lifecycle.changeBlocker(of: plan.topology)
    return reason.map { .notNow(topology: plan.topology, reason: $0) }
  }

  /// Pauses the nodes, reads the journals at this moment, and lets the nodes continue.
  private func takeCut(_ job: LoopOwned<BackupJob>, attempt: Int, for requester: Requester) {
    // A change may have begun since the journals were opened.
    if isUpgrading || lifecycle.changeBlocker(of: plan.topology) != nil {
      let reason = lifecycle.changeBlocker(of: plan.topology) ?? TopologyLifecycle.changeInProgress
      let error = BackupError.notNow(topology: plan.topology, reason: reason)
      return endBackup(job, .failure(error), for: requester)
    }
    let begin = ContinuousClock.now
    let deadline = begin + Self.pauseLimit
    let taken = Semaphore()
    let outcome = Locked<Result<Void, BackupError>?>(nil)
    let result: Result<Void, BackupError>?
    let time: Timestamp
    do {
      let paused = try PausedProcesses(
        processesWithFiles, in: directories, until: deadline, limit: Self.pauseLimit)
      defer { paused.resume() }
      time = .now
      Failpoint.hit(.backupPaused)
      archivist.handle.post {
        let result = Result { () throws(BackupError) in try job.value.take() }
        outcome.withLock { $0 = result }
        taken.signal()
      }
      _ = taken.wait(until: deadline)
      // A result that arrives after the pause is not used: the journals may have changed meanwhile.
      result = outcome.withLock { $0 }
    } catch {
      let error = error as? BackupError ?? .writing(error, to: directories.state)
      return endBackup(job, .failure(error), for: requester)
    }
    let pause = ContinuousClock.now - begin
    switch result {
    case .success?: write(job, of: time, pause: pause, for: requester)
    case .failure(let error)?: endBackup(job, .failure(error), for: requester)
    case nil where attempt < Self.pauseAttempts:
      on(archivist, job, { $0.release() }) { supervisor, _ in
        supervisor.open(job, attempt: attempt + 1, for: requester)
      }
    case nil:
      let error = BackupError.notPaused(nodes: [], limit: Self.pauseLimit.shortText)
      endBackup(job, .failure(error), for: requester)
    }
  }

  /// The processes that may write journals.
  private var processesWithFiles: [(node: String, process: NodeProcess)] {
    processes.nodes.sorted().compactMap { name in
      guard let process = processes[name], process.carrier == nil, !process.isRemote,
        process.pid > 0
      else { return nil }
      return (name, process)
    }
  }

  private func write(
    _ job: LoopOwned<BackupJob>, of time: Timestamp, pause: Duration, for requester: Requester
  ) {
    Failpoint.hit(.backupTaken)
    let manifest = BackupManifest(
      topology: plan.topology, time: time.description,
      incarnations: incarnations.counts,
      nodesWithoutJournals: plan.nodes.filter {
        $0.information.kind != .monitor && $0.information.journal == nil
      }.map(\.name))
    on(archiveWriter, job, { (job) throws(BackupError) in try job.write(manifest) }) {
      supervisor, result in
      supervisor.endBackup(
        job,
        result.map { manifest, byteCount in
          BackupReport(
            topology: manifest.topology, nodes: manifest.nodes.sorted(),
            nodesWithoutJournals: manifest.nodesWithoutJournals, byteCount: byteCount,
            pauseNanoseconds: pause.clampedNanoseconds)
        }, for: requester)
    }
  }

  private func endBackup(
    _ job: LoopOwned<BackupJob>, _ result: Result<BackupReport, BackupError>,
    for requester: Requester
  ) {
    switch result {
    case .success(let report):
      isBackingUp = false
      control.answer(.backedUp(report), to: requester)
    case .failure(let error):
      // The next backup may use the same work directory, so it waits until this directory is
      // removed.
      on(archivist, job, { $0.cancel() }) { supervisor, _ in
        supervisor.isBackingUp = false
        supervisor.control.answer(.failed("\(error)"), to: requester)
      }
    }
  }

  /// Runs a step of a backup on another thread. Then calls `next` with the result on the
  /// supervisor's thread.
  private func on<Value: Sendable>(
    _ thread: LoopThread, _ job: LoopOwned<BackupJob>,
    _ step: @escaping @Sendable (BackupJob) throws(BackupError) -> Value,
    then next: @escaping (Supervisor, Result<Value, BackupError>) -> Void
  ) {
    let owner = LoopOwned((supervisor: self, next: next))
    let handle = loop.handle
    thread.handle.post {
      let result = Result { () throws(BackupError) in try step(job.value) }
      handle.post { owner.value.next(owner.value.supervisor, result) }
    }
  }
}
