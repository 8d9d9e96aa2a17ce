//! Figures in the older text format of Prometheus (0.0.4), for tools that do not read OpenMetrics.

/// A text in the format OpenMetrics, in the older one: counters are described by the name of their samples, and there are
/// no units, no exemplars and no mark at the end.
pub(in super::super) fn plain(open_metrics: &str) -> String {
    let mut plain = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), text) => {
                help = Some((name, text.unwrap_or_default()));
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "gauge" | "histogram" | "summary" => ("", kind),
                    _ => ("", "untyped"),
                };
                if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                    plain += &format!("# HELP {name}{suffix} {text}\n");
                }
                plain += &format!("# TYPE {name}{suffix} {kind}\n");
            }
            (Some("#"), ..) => {}
            _ => {
                plain += without_exemplar(line);
                plain.push('\n');
            }
        }
    }
    plain
}

/// The name, labels and value of a sample.
fn without_exemplar(line: &str) -> &str {
    let (mut is_in_label, mut is_escaped) = (false, false);
    let mut is_outside = |letter: u8| {
        let was_escaped = std::mem::replace(&mut is_escaped, is_in_label && letter == b'\\');
        is_in_label ^= letter == b'"' && !was_escaped;
        // a character behind `\` is no `\` that escapes
        is_escaped &= !was_escaped;
        !is_in_label
    };
    let end = line.bytes().enumerate().position(|(_, letter)| is_outside(letter) && letter == b'#');
    end.map_or(line, |end| line[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_older_format_does_not_have_is_left_out() {
        let text = "# HELP a_seconds How long # it takes.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
            a_seconds_bucket{le=\"1.0\",x=\"\\\\\"} 1 # {trace_id=\"4b\"} 0.5 1.000\n\
            # HELP b Calls.\n# TYPE b counter\nb_total{code=\" # {\\\"\"} 2\n\
            # HELP build Version.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n# EOF\n";
        let expected = "# HELP a_seconds How long # it takes.\n# TYPE a_seconds histogram\n\
            a_seconds_bucket{le=\"1.0\",x=\"\\\\\"} 1\n\
            # HELP b_total Calls.\n# TYPE b_total counter\nb_total{code=\" # {\\\"\"} 2\n\
            # HELP build_info Version.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!(plain(text), expected);
    }
}
