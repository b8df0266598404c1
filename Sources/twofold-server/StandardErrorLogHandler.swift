import ArgumentParser
import FoundationEssentials
import Logging

/// The format of the log lines.
enum LogFormat: String, ExpressibleByArgument {
    /// `2026-01-31T12:00:00.000Z info message key=value`
    case text
    /// One JSON object per line. It contains the time, level, message and metadata.
    case json
}

/// A log handler that writes each log entry to standard error, as one line. An entry is dropped if the write would
/// have to wait.
struct StandardErrorLogHandler: LogHandler {
    let format: LogFormat
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let metadata = metadata.merging(event.metadata ?? [:]) { $1 }
        StandardError.shared.write(line(event.level, event.message, metadata)) { count in
            line(.warning, "dropped log lines: standard error was full", ["lines": .stringConvertible(count)])
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

    /// Replaces line breaks and terminal control codes in a text, so that the text stays on one line. Without this,
    /// text from a client could forge log lines.
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
        var fields = metadata
        fields["time"] = "\(time)"
        fields["level"] = "\(level)"
        fields["message"] = "\(message)"
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings and finite numbers always encode.
        return String(decoding: try! encoder.encode(fields.mapValues(Field.init)), as: UTF8.self)
    }
}

/// The value of a field in a JSON log line.
private struct Field: Encodable {
    private let value: any Encodable

    /// Converts a metadata value. A number stays a number; any other value becomes text.
    init(_ value: Logger.MetadataValue) {
        if case .stringConvertible(let number as any Encodable & Numeric) = value {
            self.value = number
        } else {
            self.value = "\(value)"
        }
    }

    func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }
}
