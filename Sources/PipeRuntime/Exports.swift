@_exported import PipeClient
@_exported import PipeJournal
@_exported import PipeMachines
@_exported import PipeNode
@_exported import PipeSupport
@_exported import PipeTopology
@_exported import PipeTransport
@_exported import PipeWire
