// A schema as Python hands it over: a list of fields, each a tuple.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "../core/schema.hpp"

namespace playmill {

inline Schema schema_from(nanobind::list fields) {
  Schema schema;
  for (nanobind::handle item : fields) {
    nanobind::tuple t = nanobind::cast<nanobind::tuple>(item);
    Field field;
    field.name = nanobind::cast<std::string>(t[0]);
    const int encoding = nanobind::cast<int>(t[1]);
    if (encoding < 0 || encoding > static_cast<int>(Encoding::kF16))
      throw std::invalid_argument("field '" + field.name + "': there is no encoding " + std::to_string(encoding));
    field.encoding = static_cast<Encoding>(encoding);
    field.rows = nanobind::cast<int>(t[2]);
    field.columns = nanobind::cast<int>(t[3]);
    field.size = nanobind::cast<int>(t[4]);
    field.scale = nanobind::cast<float>(t[5]);
    schema.add(field);
    if (const auto counted = nanobind::cast<std::string>(t[6]); !counted.empty()) schema.counted(counted);
  }
  return schema;
}

}  // namespace playmill
