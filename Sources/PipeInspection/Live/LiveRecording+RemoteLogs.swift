import PipeClient
import PipeLogs

extension LiveRecording {
  /// Between two questions to the orchestrator.
  private static let remotePause: Duration = .milliseconds(500)

  /// Records what a topology of another host writes, as its orchestrator reads it, while that runs.
  static func followLogs(of recording: @escaping @Sendable () -> LiveRecording?) async {
    var logs: (reader: RemoteLogs, of: ObjectIdentifier, lines: RecordedLogs)?
    while !Task.isCancelled {
      guard let recording = recording() else { return }
      if let client = recording.client.withLock({ $0 }) {
        // Another connection goes on where the last one was; of what it has told nothing comes twice.
        var following = logs ?? (RemoteLogs(client), ObjectIdentifier(client), RecordedLogs())
        if following.of != ObjectIdentifier(client) {
          following.reader = following.reader.going(on: client)
          following.of = ObjectIdentifier(client)
        }
        if let lines = try? await following.reader.next(lines: RecordedLogs.firstLines).lines {
          recording.recorder.write(following.lines.take(lines.map(LogEntry.init)))
        }
        logs = following
      }
      try? await Task.sleep(for: remotePause)
    }
  }
}
