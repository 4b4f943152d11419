#include "farcall/services/cli/report.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "farcall/services/cli/json.h"

namespace farcall::cli {
namespace {

void AddLine(std::string& text, std::string_view verdict, std::string_view topic,
             std::string_view what) {
  absl::StrAppendFormat(&text, "%-8s %-10s  %s\n", verdict, topic, what);
}

std::string_view ToString(KernelModule::State state) {
  switch (state) {
    case KernelModule::State::kLoaded:
      return "loaded";
    case KernelModule::State::kAvailable:
      return "available";
    case KernelModule::State::kAbsent:
      return "absent";
  }
  return "";
}

std::string Duration(double microseconds) {
  return microseconds < 1000 ? absl::StrFormat("%.1f us", microseconds)
                             : absl::StrFormat("%.2f ms", microseconds / 1000);
}

std::string Modules(const Facts& facts) {
  std::string text;
  for (const KernelModule& module : facts.modules) {
    absl::StrAppendFormat(&text, "%s%s %s", text.empty() ? "" : ", ", module.name,
                          ToString(module.state));
  }
  return text;
}

void WriteLimit(JsonWriter& json, std::string_view name, const Limit& limit) {
  const auto write = [&json](std::string_view which, uint64_t value) {
    json.Key(which);
    value == kUnlimited ? json.Null() : json.Number(value);
  };
  json.Key(name).Begin('{');
  write("soft", limit.soft);
  write("hard", limit.hard);
  json.End('}');
}

void WritePort(JsonWriter& json, const Facts& facts, const verbs::AdapterSurvey& adapter,
               const verbs::PortSurvey& port) {
  json.Begin('{').Key("number").Number(uint64_t{port.number});
  json.Key("state").String(port.state).Key("link_layer").String(port.link_layer);
  json.Key("active_mtu").Number(uint64_t{port.active_mtu});
  json.Key("max_mtu").Number(uint64_t{port.max_mtu});
  const std::optional<GidChoice> choice = ChooseGid(adapter, port, facts.source_address);
  json.Key("gids").Begin('[');
  for (size_t i = 0; i < port.gids.size(); ++i) {
    const verbs::GidSurvey& gid = port.gids[i];
    const bool used = choice.has_value() && choice->place == i;
    json.Begin('{').Key("index").Number(uint64_t{gid.index}).Key("address").String(gid.address);
    json.Key("type").String(gid.type).Key("interface").String(gid.interface);
    json.Key("used").Bool(used);
    if (used) json.Key("why").String(choice->why);
    json.End('}');
  }
  json.End(']').End('}');
}

void WriteAdapters(JsonWriter& json, const Facts& facts) {
  json.Key("adapters").Begin('[');
  for (const verbs::AdapterSurvey& adapter : facts.adapters) {
    json.Begin('{').Key("name").String(adapter.name);
    json.Key("transport").String(adapter.transport).Key("firmware").String(adapter.firmware);
    json.Key("windows").Bool(adapter.windows);
    json.Key("ports").Begin('[');
    for (const verbs::PortSurvey& port : adapter.ports) WritePort(json, facts, adapter, port);
    json.End(']').End('}');
  }
  json.End(']');
}

void WriteFacts(JsonWriter& json, const Facts& facts) {
  json.Key("versions").Begin('{').Key("farcall").String(facts.farcall);
  json.Key("rdma_core").String(facts.rdma_core).Key("kernel").String(facts.kernel).End('}');
  json.Key("cpus").Number(uint64_t{facts.cpus});
  json.Key("modules").Begin('{');
  for (const KernelModule& module : facts.modules) {
    json.Key(module.name).String(ToString(module.state));
  }
  json.End('}');
  WriteAdapters(json, facts);
  json.Key("limits").Begin('{');
  WriteLimit(json, "memlock", facts.memlock);
  json.Key("memlock_applies").Bool(!facts.ignores_memlock);
  WriteLimit(json, "open_files", facts.open_files);
  json.End('}');
  json.Key("shm").Begin('{').Key("folder").String(facts.shm_folder).Key("listeners").Begin('[');
  for (const std::string& name : facts.shm_listeners) json.String(name);
  json.End(']').End('}');
}

}  // namespace

JsonWriter& JsonWriter::String(std::string_view value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return Raw(quoted + '"');
}

bool AllWell(const Report& report) {
  return std::none_of(
             report.findings.begin(), report.findings.end(),
             [](const Finding& finding) { return finding.level == Finding::Level::kProblem; }) &&
         std::all_of(report.steps.begin(), report.steps.end(),
                     [](const ProbeStep& step) { return step.ok; });
}

std::string AsText(const Report& report) {
  const Facts& facts = report.facts;
  std::string text = absl::StrCat("farcall ", facts.farcall, ", rdma-core ",
                                  facts.rdma_core.empty() ? "unknown" : facts.rdma_core, ", Linux ",
                                  facts.kernel, "\n");
  absl::StrAppend(&text, "kernel modules: ", Modules(facts), "\n\n");
  for (const Finding& finding : report.findings) {
    AddLine(text, ToString(finding.level), finding.topic, finding.text);
    if (!finding.remedy.empty()) AddLine(text, "", "", "-> " + finding.remedy);
  }
  if (report.address.empty()) return text;
  absl::StrAppend(&text, "\n", report.address, "\n");
  for (const ProbeStep& step : report.steps) {
    AddLine(text, step.ok ? "ok" : "PROBLEM", step.name,
            step.ok ? absl::StrCat(Duration(step.microseconds), ": ", step.text) : step.text);
  }
  return text;
}

std::string AsJson(const Report& report) {
  JsonWriter json;
  json.Begin('{').Key("well").Bool(AllWell(report));
  WriteFacts(json, report.facts);
  json.Key("findings").Begin('[');
  for (const Finding& finding : report.findings) {
    json.Begin('{').Key("level").String(ToString(finding.level));
    json.Key("topic").String(finding.topic).Key("text").String(finding.text);
    json.Key("remedy").String(finding.remedy).End('}');
  }
  json.End(']');
  if (!report.address.empty()) {
    json.Key("probe").Begin('{').Key("address").String(report.address);
    json.Key("steps").Begin('[');
    for (const ProbeStep& step : report.steps) {
      json.Begin('{').Key("name").String(step.name).Key("ok").Bool(step.ok);
      json.Key("text").String(step.text).Key("microseconds").Number(step.microseconds).End('}');
    }
    json.End(']').End('}');
  }
  return json.End('}').text() + "\n";
}

}  // namespace farcall::cli
