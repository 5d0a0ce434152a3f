import Glibc
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator install-service`.
struct InstallService: Verb {
  let description = VerbDescription(
    "install-service", "Makes a topology a service of systemd, which starts it at boot",
    discussion:
      "Writes an instance of the unit piperuntime@.service and enables it. systemd restarts an "
      + "orchestrator that is killed or hangs; the nodes keep running, and the new orchestrator "
      + "adopts them. 'systemctl stop' stops the nodes in order. Checks the file first, as "
      + "'orchestrator check' does. The service does not have the environment of this shell: see "
      + "docs/DEPLOYMENT.md.",
    options: [
      Option(
        "name", value: .topology, "Runs the topology under this name. Default: the name in the file"
      ),
      .deployment,
      Option(
        "user",
        "Makes the topology a service of your user, which runs while you are logged in, or always "
          + "after 'loginctl enable-linger'"),
      Option(
        "as", value: .text("USER"),
        "The user that the service runs as. Default: the user who called sudo, else this user"),
      .logFormat,
      Option("now", "Also starts the service"),
      Option("dry-run", "Prints the files and commands, and changes nothing"),
      Option(
        "template",
        "Prints only the template unit, which an installed package contains. Cannot be used with "
          + "FILE"),
    ],
    positionals: [
      Positional("FILE", .file, .optional, "The topology file; required without --template")
    ],
    examples: [
      (
        "sudo orchestrator install-service --now shop.yaml",
        "Starts the topology now and at each boot"
      ),
      ("orchestrator install-service --user --dry-run shop.yaml", "Shows what would be written"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let isUserService = arguments.contains(option: "user")
    let unit = ServiceUnit(program: try program(), isUserService: isUserService)
    if arguments.contains(option: "template") {
      if let extra = arguments.positionals.first {
        throw UsageError.extraPositional(extra, of: description.command)
      }
      try console.write(unit.template)
      return .success
    }
    guard let file = arguments.positionals.first else {
      throw UsageError.missingPositional("FILE", of: description.command)
    }
    if isUserService, arguments.contains(option: "as") {
      throw UsageError.conflict("--user", "--as")
    }
    guard let instance = try instance(file, arguments, console) else { return .usage }
    let installation = ServiceInstallation(unit, instance)
    if arguments.contains(option: "dry-run") {
      try installation.describe(startsNow: arguments.contains(option: "now"), console)
    } else {
      try installation.install(startsNow: arguments.contains(option: "now"), console)
    }
    return .success
  }

  private func program() throws -> String {
    guard let program = OwnProcess.executablePath else {
      throw CommandError("cannot determine the path of this executable")
    }
    return program
  }

  /// Checks the files and returns the instance; returns `nil` if the files have errors.
  private func instance(
    _ file: String, _ arguments: ParsedArguments, _ console: Console
  ) throws -> ServiceUnit.Instance? {
    var deploymentReport = arguments.value("deployment").map { DeploymentReport(.file($0)) }
    let loaded: LoadedTopology
    do {
      loaded = try LoadedTopology.load(
        .file(file), name: arguments.value("name"), in: deploymentReport?.examination)
      try deploymentReport?.check(for: loaded.topology)
    } catch let errors as TopologyErrors {
      for diagnostic in errors.diagnostics + (deploymentReport?.diagnostics ?? []) {
        console.diagnostic(diagnostic)
      }
      return nil
    }
    if let deploymentReport, !deploymentReport.isValid {
      for diagnostic in deploymentReport.diagnostics { console.diagnostic(diagnostic) }
      return nil
    }
    if let engine = loaded.deployment?.engine, engine != .local {
      throw CommandError(
        "a service runs on this host, but the deployment has engine '\(engine.rawValue)'; "
          + "docs/CLUSTERS.md shows how to run it",
        code: .usage)
    }
    let paths = [file] + (arguments.value("deployment").map { [$0] } ?? [])
    for path in paths where path.contains(where: \.isNewline) {
      throw CommandError(
        "a path in a unit cannot contain a line end: '\(path.printable)'", code: .usage)
    }
    var instance = ServiceUnit.Instance(
      topology: loaded.topology.name, file: FileSystem.absolutePath(file),
      deployment: arguments.value("deployment").map(FileSystem.absolutePath),
      user: arguments.contains(option: "user") ? nil : try user(arguments))
    instance.logFormat = arguments.logFormat ?? .text
    return instance
  }

  /// Returns the user under whose account the service runs.
  private func user(_ arguments: ParsedArguments) throws(CommandError) -> String {
    let name =
      arguments.value("as") ?? ProcessEnvironment.current["SUDO_USER"]
      ?? getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "root"
    guard getpwnam(name) != nil else {
      throw CommandError(
        "no such user '\(name)'; create it, or name another user with --as", code: .usage)
    }
    return name
  }
}

/// The files and commands that make a topology a service.
struct ServiceInstallation {
  private let unit: ServiceUnit
  private let instance: ServiceUnit.Instance

  init(_ unit: ServiceUnit, _ instance: ServiceUnit.Instance) {
    self.unit = unit
    self.instance = instance
  }

  /// The directories with the units of installed packages. One of them may contain the template
  /// unit.
  private var packageDirectories: [String] {
    ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"].map {
      "\($0)/systemd/" + (unit.isUserService ? "user" : "system")
    }
  }

  /// The directory to which the files are written.
  private var directory: String {
    guard unit.isUserService else { return "/etc/systemd/system" }
    let environment = ProcessEnvironment.current
    let configuration =
      environment["XDG_CONFIG_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
      ?? (environment["HOME"] ?? "") + "/.config"
    return configuration + "/systemd/user"
  }

  private var name: String { ServiceUnit.name(of: instance.topology) }

  private var files: [ServiceUnit.File] {
    let template = ServiceUnit.File(
      path: directory + "/" + ServiceUnit.templateName, text: unit.template)
    let dropIn = ServiceUnit.File(
      path: directory + "/\(name).d/topology.conf", text: unit.dropIn(instance))
    let isInstalled = packageDirectories.contains {
      $0 != directory && FileSystem.exists($0 + "/" + ServiceUnit.templateName)
    }
    return isInstalled ? [dropIn] : [template, dropIn]
  }

  private func commands(startsNow: Bool) -> [[String]] {
    [["daemon-reload"], ["enable"] + (startsNow ? ["--now"] : []) + [name]]
      .map { (unit.isUserService ? ["--user"] : []) + $0 }
  }

  /// Prints the files and commands.
  func describe(startsNow: Bool, _ console: Console) throws {
    for file in files { try console.print("# \(file.path)\n\(file.text)") }
    for command in commands(startsNow: startsNow) {
      try console.print("systemctl " + command.joined(separator: " "))
    }
  }

  /// Writes the files, and runs the commands.
  func install(startsNow: Bool, _ console: Console) throws {
    let systemctl = try SystemControl()
    if !unit.isUserService {
      guard FileSystem.isDirectory("/run/systemd/system") else {
        throw CommandError(
          "systemd does not run on this host: there is no '/run/systemd/system'; --dry-run prints "
            + "the files")
      }
      guard geteuid() == 0 else {
        throw CommandError(
          "only root can write to '\(directory)'; use sudo, or --user for a service of your user")
      }
    }
    // If the service manager does not run, this command fails before any file is written.
    try systemctl.run(commands(startsNow: false)[0])
    for file in files {
      do {
        try FileSystem.makeDirectories(FileSystem.parentDirectory(of: file.path))
        try FileSystem.replace(file.path, with: Array(file.text.utf8))
        _ = chmod(file.path, 0o644)
      } catch {
        throw CommandError("cannot write '\(file.path)': \(error)")
      }
      try console.print("wrote \(file.path)")
    }
    for command in commands(startsNow: startsNow) { try systemctl.run(command) }
    let control = "systemctl\(unit.isUserService ? " --user" : "")"
    try console.print(
      startsNow
        ? "\(name): enabled and started" : "\(name): enabled; '\(control) start \(name)' starts it")
    if let user = instance.user {
      try console.print(
        "\(name): runs as user '\(user)'; its commands need "
          + "PIPERUNTIME_ROOT=/var/lib/piperuntime/\(instance.topology)")
    }
  }
}

/// The program `systemctl`.
struct SystemControl {
  private let path: String
  /// The maximum time for one command. A topology can take a long time to start.
  private static let timeout: Duration = .seconds(600)

  init() throws(CommandError) {
    let directories = (ProcessEnvironment.current["PATH"] ?? "").split(separator: ":")
    let path = directories.map { "\($0)/systemctl" }
      .first { access($0, X_OK) == 0 && !FileSystem.isDirectory($0) }
    guard let path else {
      throw CommandError(
        "systemd is not installed: there is no 'systemctl' in PATH; --dry-run prints the files")
    }
    self.path = path
  }

  func run(_ arguments: [String]) throws {
    var child = try ChildProcess.spawn(
      ChildCommand(path: path, arguments: arguments, environment: ProcessEnvironment.current))
    defer { child.closePipes() }
    let deadline = ContinuousClock.now + Self.timeout
    var openDescriptors: Set<Int32> = [child.outputDescriptor, child.errorDescriptor]
    var errors: [UInt8] = []
    while !openDescriptors.isEmpty, ContinuousClock.now < deadline {
      for (descriptor, bytes) in PipeReader.readAvailable(&openDescriptors, until: deadline)
      where descriptor == child.errorDescriptor {
        errors = (errors + bytes).suffix(2_000)
      }
    }
    let command = "systemctl " + arguments.joined(separator: " ")
    guard openDescriptors.isEmpty else {
      child.signal(.kill, group: true)
      child.wait()
      throw CommandError("timed out: '\(command)' did not end within \(Self.timeout.shortText)")
    }
    guard child.wait()?.isSuccess == true else {
      let reason = String(decoding: errors, as: UTF8.self).split(separator: "\n").map(\.printable)
      throw CommandError("'\(command)' failed: \(reason.joined(separator: "; "))")
    }
  }
}
