import PipeRuntime

/// The systemd units with which a topology runs as a service.
package struct ServiceUnit: Hashable, Sendable {
  /// A file with its text.
  package struct File: Hashable, Sendable {
    package let path: String
    package let text: String
  }

  /// The path of the `orchestrator` program.
  package var program: String
  /// Whether the service manager of a user runs the service, and not the service manager of the
  /// system.
  package var isUserService: Bool

  package init(program: String, isUserService: Bool) {
    self.program = program
    self.isUserService = isUserService
  }

  package static let templateName = "piperuntime@.service"

  /// Returns the name of the unit for a topology, such as `piperuntime@elevator.service`.
  package static func name(of topology: String) -> String { "piperuntime@\(topology).service" }

  /// The text of the template unit. Each instance of the template has the name of a topology.
  package var template: String {
    let file = "%E/piperuntime/%i.yaml"
    let command = Self.quoted(program)
    return """
      # A topology as a service\(isUserService ? " of a user" : ""). 'orchestrator install-service FILE' creates an instance
      # with the name of the topology. An instance that you enable yourself runs the file \(file).
      [Unit]
      Description=PipeRuntime topology %i
      Documentation=man:orchestrator(1)
      \(isUserService ? "" : "Wants=network-online.target\nAfter=network-online.target\n")StartLimitIntervalSec=0

      [Service]
      Type=notify
      ExecStart=\(command) run --service --logs --name %i \(file)
      ExecReload=\(command) apply -p %i \(file)
      \(isUserService ? "" : Self.directories)# The nodes outlive a killed orchestrator, and the next orchestrator adopts them. So systemd must end only the
      # orchestrator, which stops the nodes in order.
      KillMode=process
      Restart=always
      RestartSec=1s
      # Exit code 0 is a graceful end, such as 'orchestrator down', and 2 is an invalid topology file.
      RestartPreventExitStatus=0 2
      WatchdogSec=30s
      TimeoutAbortSec=10s
      # If the orchestrator did not stop in time and was killed, end its nodes.
      ExecStopPost=-/bin/sh -c 'test "$$SERVICE_RESULT" != timeout || exec "$$0" down -p %i' \(command)
      # The orchestrator restarts nodes that the kernel ends when memory is short.
      OOMPolicy=continue
      TasksMax=infinity

      [Install]
      WantedBy=\(isUserService ? "default.target" : "multi-user.target")

      """
  }

  /// The directories of a system service, which cannot use `XDG_RUNTIME_DIR`.
  ///
  /// `XDG_RUNTIME_DIR` exists only while a user is logged in.
  private static let directories = """
    StateDirectory=piperuntime/%i
    StateDirectoryMode=0700
    Environment=PIPERUNTIME_ROOT=%S/piperuntime/%i

    """

  /// An instance of the template unit: a topology that runs as a service.
  package struct Instance: Hashable, Sendable {
    /// The topology's name.
    package var topology: String
    /// The absolute path of the topology file.
    package var file: String
    /// The absolute path of the deployment file; `nil` without a deployment.
    package var deployment: String?
    /// The user under whose account the topology runs; `nil` if the service manager of a user runs
    /// the service.
    package var user: String?
    package var logFormat = LogFormat.text

    package init(topology: String, file: String, deployment: String? = nil, user: String? = nil) {
      self.topology = topology
      self.file = file
      self.deployment = deployment
      self.user = user
    }
  }

  /// Returns the drop-in file that adds a topology's settings to an instance of the template unit.
  package func dropIn(_ instance: Instance) -> String {
    let directory = FileSystem.parentDirectory(of: instance.file)
    let logs =
      instance.logFormat == .text ? "--logs" : "--logs --log-format \(instance.logFormat.rawValue)"
    let arguments =
      (instance.deployment.map { ["--deployment", $0] } ?? []) + [instance.file]
    let words = arguments.map(Self.quoted).joined(separator: " ")
    return """
      # Written by 'orchestrator install-service'. Use 'systemctl\(isUserService ? " --user" : "") edit' to add other settings.
      [Unit]
      RequiresMountsFor=\(Self.quoted(directory))

      [Service]
      \(instance.user.map { "User=\($0)\n" } ?? "")WorkingDirectory=\(Self.escapingSpecifiers(directory))
      ExecStart=
      ExecStart=\(Self.quoted(program)) run --service \(logs) --name \(instance.topology) \(words)
      ExecReload=
      ExecReload=\(Self.quoted(program)) apply -p \(instance.topology) \(words)

      """
  }

  /// Quotes a word for a command line in a unit; see "Quoting" in systemd.syntax(7).
  private static func quoted(_ word: String) -> String {
    let escaped = escapingSpecifiers(word).replacing("$", with: "$$")
    guard word.contains(where: { " \t\"'\\;".contains($0) }) else { return escaped }
    return "\"" + escaped.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
  }

  private static func escapingSpecifiers(_ text: String) -> String {
    text.replacing("%", with: "%%")
  }
}
