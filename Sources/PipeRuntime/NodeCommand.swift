import CProcess
import Dispatch
import Glibc
import PipeClient
import PipeMachines
import PipeNode
import PipeSupport
import PipeSystem
import PipeWire

/// The command line of a node program.
struct NodeCommand {
  let machines: [any Machine.Type]
  let monitors: [any Monitor.Type]
  let composites: [any CompositeState.Type]
  let views: [any TerminalView.Type]
  let arguments: [String]

  private var program: String {
    arguments.first?.split(separator: "/").last.map(String.init) ?? "nodes"
  }

  func run() -> Never {
    checkNames()
    let rest = arguments.dropFirst(2)
    switch arguments.dropFirst().first {
    case "run": runNode(verbs.run.parseOrExit(rest))
    case "describe": describe(verbs.describe.parseOrExit(rest))
    case "list": list(verbs.list.parseOrExit(rest))
    case "monitor": attach(verbs.monitor.parseOrExit(rest))
    case "explore":
      _ = verbs.explore.parseOrExit(rest)
      var evaluator = EvaluatorServer(host)
      exit(evaluator.serve())
    case "try-journals":
      exit(JournalTrialServer.run(host, verbs.tryJournals.parseOrExit(rest).positionals[0]))
    case "view": exit(ViewCommand(program: program, views: views).run(verbs.view.parseOrExit(rest)))
    case "help", "--help", "-h":
      print(help)
      exit(0)
    case let verb?:
      let known = verbs.allCommands.map(\.name)
      UsageError.unknownVerb(
        verb, suggestion: Suggestion.closest(to: verb, among: known), of: program
      )
      .exit(of: program)
    case nil: UsageError.missingVerb(of: program).exit(of: program)
    }
  }

  private var verbs: NodeVerbs { NodeVerbs(program: program) }

  private func checkNames() {
    var seenNames: Set<String> = []
    for name in machines.map({ $0.name }) + monitors.map({ $0.name }) + composites.map({ $0.name })
    where !seenNames.insert(name).inserted {
      stop(
        "duplicate name '\(name)' among machines, monitors and composite states; give one "
          + "of them another 'name'", code: 2)
    }
    seenNames = []
    for view in views where !seenNames.insert(view.name).inserted {
      stop("duplicate view name '\(view.name)'; give one of the views another 'name'", code: 2)
    }
  }

  // MARK: The verb run

  private var host: NodeHost {
    NodeHost(
      machines: machines,
      monitors: monitors.map { monitor in
        HostedMonitor(name: monitor.name) { topology, control, keys, watch, parameters in
          try await monitor.observe(
            topology: topology, control: control, keys: keys.map { ClientKeys($0) }, watch: watch,
            parameters: parameters)
        }
      }, composites: composites)
  }

  private func runNode(_ parsed: ParsedArguments) -> Never {
    let arguments: NodeArguments
    do {
      arguments = try NodeArguments(parsed, of: program)
    } catch {
      stop("\(error)\nStart nodes with 'orchestrator run FILE'.", code: 2)
    }
    let log = NodeLog()
    do {
      exit(try host.serve(arguments, log: log))
    } catch {
      log.failure("\(error)")
      exit(1)
    }
  }

  // MARK: The verbs describe and list

  private func describe(_ parsed: ParsedArguments) -> Never {
    do {
      let body: [UInt8]
      if parsed.options.isEmpty {
        body = try JSONRecord.encode(
          ProgramDescription(
            program: program, protocolVersion: Int(FrameHeader.version),
            machines: machines.map { $0.description(parameters: [:]) },
            monitors: monitors.map { $0.name },
            composites: composites.map { $0.description }))
      } else {
        body = try JSONRecord.encode(
          try DescriptionRequest.requests(parsed, of: program).map { request in
            try host.machine(request.machine).description(parameters: request.parameters)
          })
      }
      print(String(decoding: body, as: UTF8.self))
      exit(0)
    } catch let error as UsageError {
      error.exit(of: program)
    } catch {
      stop("\(error)", code: 1)
    }
  }

  private func list(_: ParsedArguments) -> Never {
    for machine in machines { print("machine \(machine.name)") }
    for monitor in monitors { print("monitor \(monitor.name)") }
    for composite in composites {
      let types = composite.description.components.map(\.type).joined(separator: ", ")
      print("composite \(composite.name) of \(types)")
    }
    for view in views { print("view \(view.name)") }
    exit(0)
  }

  // MARK: The verb monitor

  private func parameters(of parsed: ParsedArguments) -> JSONValue {
    guard let text: String = parsed.value("parameters") else { return [:] }
    do throws(UsageError) {
      return try JSONValue(argument: text, of: "--parameters")
    } catch {
      error.exit(of: program)
    }
  }

  private func attach(_ parsed: ParsedArguments) -> Never {
    let name = parsed.positionals[0]
    guard let monitor = monitors.first(where: { $0.name == name }) else {
      stop(
        "this program has no monitor '\(name)'"
          + Suggestion.among(monitors.map { $0.name }, like: name), code: 2)
    }
    pr_line_buffer_output()
    let (program, watched) = (program, parsed.commaSeparatedValues("watch"))
    let parameters = self.parameters(of: parsed)
    let code = MainThread.run {
      do {
        try await monitor.observe(
          TopologyClient.attach(to: parsed.target), watch: watched, parameters: parameters)
        return 0 as Int32
      } catch {
        StandardError.write("\(program): error: \(error)\n")
        return (error as? TopologyClientError)?.exitCode ?? 1
      }
    }
    exit(code)
  }

  // MARK: Help and error messages

  private var help: String {
    let text = HelpText()
    return """
      Usage: \(program) VERB [OPTIONS] [ARGUMENTS]

      Runs state machines as nodes of a topology.

      \(text.section("Verbs:", text.definitionList(verbs.allCommands.map { ($0.name, $0.summary) })))

      Run '\(program) VERB --help' for more information about a verb.
      """
  }

  private func stop(_ message: String, code: Int32) -> Never {
    StandardError.write("\(program): error: \(message)\n")
    exit(code)
  }
}

/// The verbs of a node program.
private struct NodeVerbs {
  let program: String

  var allCommands: [CommandDescription] {
    [list, describe, monitor, view, explore, tryJournals, run]
  }
  var describe: CommandDescription { DescriptionRequest.description(of: program) }
  var view: CommandDescription { ViewCommand.description(of: program) }
  var explore: CommandDescription { EvaluatorServer.description(of: program) }
  var tryJournals: CommandDescription { JournalTrialServer.description(of: program) }
  var run: CommandDescription { NodeArguments.description(of: program) }

  var list: CommandDescription {
    CommandDescription(
      "list", of: program, "Lists the machines, monitors, composite states and views of the program"
    )
  }

  var monitor: CommandDescription {
    CommandDescription(
      "monitor", of: program, "Attaches a monitor to a running topology",
      options: [
        .topology,
        Option("watch", value: .text("A,B"), "The nodes to watch. Default: all"),
        Option(
          "parameters", value: .text("JSON"),
          "The parameters of the monitor. Default: the monitor's own"),
      ],
      positionals: [
        Positional("MONITOR", .text("MONITOR"), .one, "The registered name of the monitor")
      ])
  }
}
