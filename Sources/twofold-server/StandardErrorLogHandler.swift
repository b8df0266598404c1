import ArgumentParser
import FoundationEssentials
import Logging

/// How a log line looks.
enum LogFormat: String, ExpressibleByArgument {
    /// `2026-01-31T12:00:00.000Z info message key=value`
    case text
    /// One JSON object a line: time, level, message, and the metadata beside them.
    case json
}

/// Writes one line for each entry to standard error, unless that would have to wait.
struct StandardErrorLogHandler: LogHandler {
    let format: LogFormat
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    init(format: LogFormat, logLevel: Logger.Level) {
        self.format = format
        self.logLevel = logLevel
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let metadata = metadata.merging(event.metadata ?? [:]) { $1 }
        StandardError.shared.write(line(event.level, event.message, metadata)) { count in
            line(.warning, "dropped log lines that nobody read", ["lines": .stringConvertible(count)])
        }
    }

    private func line(
        _ level: Logger.Level, _ message: Logger.Message, _ metadata: Logger.Metadata
    ) -> String {
        let time = Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        return switch format {
        case .text: textLine(time, level, message, metadata)
        case .json: jsonLine(time, level, message, metadata)
        }
    }

    private func textLine(
        _ time: String, _ level: Logger.Level, _ message: Logger.Message, _ metadata: Logger.Metadata
    ) -> String {
        let pairs = metadata.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }
        return Self.escaped("\(time) \(level) \(message)" + pairs.joined())
    }

    /// The text on one line: what clients send may hold line breaks, which would begin a line of theirs, and codes
    /// that terminals obey.
    private static func escaped(_ text: String) -> String {
        var line = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator:
                line.append(contentsOf: scalar.escaped(asASCII: true).unicodeScalars)
            default: line.append(scalar)
            }
        }
        return String(line)
    }

    private func jsonLine(
        _ time: String, _ level: Logger.Level, _ message: Logger.Message, _ metadata: Logger.Metadata
    ) -> String {
        var fields = metadata.mapValues(Field.init)
        fields["time"] = .text(time)
        fields["level"] = .text("\(level)")
        fields["message"] = .text("\(message)")
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings and whole numbers always encode.
        return String(decoding: try! encoder.encode(fields), as: UTF8.self)
    }
}

/// A value in a line of JSON.
private enum Field: Encodable {
    case text(String)
    case number(Int)

    /// A number where a number was logged.
    init(_ value: Logger.MetadataValue) {
        if case .stringConvertible(let number as Int) = value {
            self = .number(number)
        } else {
            self = .text("\(value)")
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .text(let text): try container.encode(text)
        case .number(let number): try container.encode(number)
        }
    }
}
