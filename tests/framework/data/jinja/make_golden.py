#!/usr/bin/env python3
"""Writes golden.json: small templates with the features of public chat templates, and what Jinja
gives for them in the environment that transformers uses. Needs: pip install jinja2.

    python3 tests/framework/data/jinja/make_golden.py
"""
import json
import os

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                            extensions=[Generation, jinja2.ext.loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = lambda form: "DATE " + form

USER = {"role": "user", "content": " Hi  there "}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."}
CHAT = [SYSTEM, USER, ANSWER, {"role": "user", "content": "Bye"}]
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Says \"how\" it is <b>&'",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "n": {
        "type": "integer", "default": 3}}, "required": ["city"]}}}]
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"function": {"name": "weather", "arguments": {"city": "Zürich", "n": 2.5}}}]}

# What families do, in our own words: (name, template, variables).
CASES = [
    ("headers", """{% for message in messages %}
{% if loop.first and messages[0]['role'] != 'system' %}<<system>>none<<end>>
{% endif %}
{{ '<<' + message['role'] + '>>' + '\\n' + message['content'] + '<<end>>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<<assistant>>\\n' }}
{% endif %}
""", {"messages": CHAT}),
    ("trimmed", "{{ bos_token }}{% for m in messages %}{{ '<h>' ~ m.role ~ '</h>\\n\\n' ~ m.content"
     " | trim ~ '<eot>' }}{% endfor %}", {"messages": CHAT}),
    ("folded system", """{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}
  {%- set first = messages[0]['content'] + '\\n\\n' -%}
  {%- set rest = messages[1:] -%}
{%- else -%}
  {%- set first = '' -%}
  {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{ raise_exception("Roles must alternate") }}
  {%- endif -%}
  {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
  {{ '<turn>' + role + '\\n' + (first if loop.first else '') }}
  {%- if message['content'] is string -%}
    {{ message['content'] | trim }}
  {%- elif message['content'] is iterable -%}
    {%- for part in message['content'] -%}
      {{ part['text'] | trim if part.type == 'text' else '<image>' }}
    {%- endfor -%}
  {%- endif -%}
  {{ '</turn>\\n' }}
{%- endfor -%}
""", {"messages": CHAT}),
    ("refused", "{{ raise_exception('No ' ~ messages[0].role) }}", {"messages": CHAT}),
    ("namespace search from the end", """
{%- set ns = namespace(last=messages|length - 1, tool=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.tool and message.role == "user" and message.content is string and not
        (message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.tool = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
last={{ ns.last }} {{ ns.tool }}""", {"messages": CHAT}),
    ("thoughts cut", """{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- set content = message.content %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
[{{ thought }}|{{ content }}]
    {%- endif %}
{%- endfor %}""", {"messages": CHAT}),
    ("tools", """{%- if tools %}
    {{- 'Tools:\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
{%- endif %}
{{ tools[0] | tojson(indent=4) }}""", {"tools": TOOLS}),
    ("calls", """{%- for message in messages %}
    {%- if message.tool_calls is defined and message.tool_calls is not none %}
        {%- for call in message.tool_calls %}
            {%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- '{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}' }}
        {%- endfor %}
    {%- endif %}
{%- endfor %}""", {"messages": [USER, CALL]}),
    ("macros", """{%- macro typed(spec, depth=1) -%}
{%- if spec.type == 'object' -%}
{ {% for name, inner in spec.properties.items() %}{{ name }}{{ '' if name in spec.required else '?' }}: {{ typed(inner, depth + 1) }}{{ ', ' if not loop.last }}{% endfor %} }
{%- else -%}
{{ spec.type ~ '@' ~ depth }}{{ ' = ' ~ spec.default if spec.default is defined }}
{%- endif -%}
{%- endmacro -%}
{{ typed(tools[0].function.parameters) }}""", {"tools": TOOLS}),
    ("date", "{% if not date_string is defined %}{% if strftime_now is defined %}{% set date_string"
     " = strftime_now('%d %b %Y') %}{% else %}{% set date_string = '26 Jul 2024' %}{% endif %}"
     "{% endif %}Today: {{ date_string }}", {}),
    ("defaults", "{{ a | default('x') }}{{ b | default('y', true) }}{{ c.d | default('z') }}{{"
     " (e or 'w') }}{{ false if f is undefined else 1 }}", {"b": "", "c": {}, "e": None}),
    ("select", "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages"
     " | rejectattr('role', 'equalto', 'system') | map(attribute='role') | join(',') }} {{ tools |"
     " map(attribute='function.name') | list }} {{ [1, 2, 3, 4] | select('odd') | list }} {{ [0,"
     " 1, 2] | reject | list }}", {"messages": CHAT, "tools": TOOLS}),
    ("loop", "{% for x in [10, 20, 30] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{"
     " loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{"
     " loop.nextitem }};{% else %}none{% endfor %}{% for x in [] %}{% else %}none{% endfor %}", {}),
    ("loop scope", "{% set x = 1 %}{% for i in range(3) %}{% set x = i %}{% endfor %}{{ x }}{% if"
     " true %}{% set x = 5 %}{% endif %}{{ x }}", {}),
    ("loop filter", "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content }}"
     "{% endfor %}", {"messages": CHAT}),
    ("loop control", "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5"
     " %}{% break %}{% endif %}{{ i }}{% endfor %}", {}),
    ("unpack", "{% for k, v in data.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in data |"
     " dictsort %}{{ k }}={{ v }};{% endfor %}{% set a, b = 1, 'two' %}{{ a }}{{ b }}",
     {"data": {"b": 1, "a": [1, "x", None, True, 2.0]}}),
    ("printed", "{{ [1, 2.5, 'it\\'s', \"a\\\"b\", none, true, {'k': [1]}] }}{{ 1e20 }}{{ 0.0001"
     " }}{{ 1.0 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7 / 2 }}{{ 2 ** 10 }}{{ 1 + 2 * 3 - 4 }}{{ '%s' }}",
     {}),
    ("comparisons", "{{ 1 < 2 < 3 }}{{ 1 < 2 > 5 }}{{ 'a' < 'b' }}{{ 1 == 1.0 }}{{ 'x' in 'axb' }}"
     "{{ 3 not in [1, 2] }}{{ not true or false }}{{ none == none }}{{ 'k' in {'k': 1} }}{{ 'a' ~"
     " 1 ~ none }}", {}),
    ("choices", "{{ 'a' if x else 'b' }}[{{ 'a' if x }}]{{ 'p' if false else 'q' if false else 'r'"
     " }}", {}),
    ("strings", "{{ t.upper() }}{{ t.title() }}{{ t.capitalize() }}{{ s.replace('l', 'L') }}{{"
     " s.split() }}{{ s.split('l') }}{{ s.split('l', 1) }}{{ s.strip() }}|{{ s.lstrip() }}|{{"
     " s.rstrip() }}|{{ s.find('l') }}{{ s.startswith(' h') }}{{ s[1] }}{{ s[-2] }}{{ s[1:4] }}{{"
     " s[::-1] }}{{ s | length }}{{ '-'.join(['a', 'b']) }}{{ 'ab' * 3 }}{{ s.splitlines() }}",
     {"s": " héllo wörld ", "t": "it's a-b c1d"}),
    ("filters", "{{ [3, 1, 2] | sort | join(' ') }}{{ ['b', 'A'] | sort }}{{ [1, 1, 2] | unique |"
     " list }}{{ [1, 2] | first }}{{ [1, 2] | last }}{{ [1, 5, 2] | max }}{{ [1, 2] | sum }}{{"
     " ' x ' | trim }}{{ 'a b' | title }}{{ '12' | int + 1 }}{{ 'x' | int }}{{ '1.5' | float }}{{"
     " 2.567 | round(2) }}{{ -3 | abs }}{{ 'abc' | list }}{{ 'abc' | reverse }}{{ {'a': 1} |"
     " items | list }}{{ 'a\\nb\\n\\nc' | indent(2) }}{{ 5 | string ~ 'x' }}", {}),
    ("tests", "{{ 1 is number }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ none"
     " is none }}{{ true is boolean }}{{ 2 is even }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 1 is"
     " integer }}{{ 1.5 is float }}{{ x is not defined }}{{ true is true }}{{ 1 is true }}{{ 5 is"
     " gt 3 }}{{ 'a' is in ['a'] }}", {}),
    ("raw", "{% raw %}{{ not read }}{% endraw %}{# a comment #}{{ '{{' }}{{ '}}' }}{{ {'a': {'b':"
     " 1}}['a']['b'] }}", {}),
    ("blanks", "a\n  {% if true %}\n  b\n  {% endif %}\n  c {%- if true %} d {% endif -%} e\n"
     "  {{ 'f' }}\n  {# g #}\n  h\n  {%+ if true %}i{% endif %}\n{%- set x = 1 -%}\n\n  j  {{- 'k'"
     " -}}  l\n\n", {}),
    ("set block", "{% set x %}a{{ 1 + 1 }}b{% endset %}[{{ x }}]{{ x | length }}", {}),
    ("generation", "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}"
     "{% endfor %}", {"messages": [USER]}),
    ("get", "{{ d.get('a') }}{{ d.get('b', 2) }}{{ d.get('c') }}{{ d.keys() | list }}{{ d.values()"
     " | list }}{{ d['a'] }}{{ d.zz is defined }}", {"d": {"a": 1}}),
    ("slices", "{{ [0, 1, 2, 3, 4][1:3] }}{{ [0, 1, 2][::-1] }}{{ [0, 1, 2, 3][-2:] }}{{ [0, 1, 2,"
     " 3][:-1] }}{{ [0, 1, 2, 3][::2] }}{{ [0, 1][5:] }}{{ 'abc'[-2:] }}", {}),
    ("escapes", "{{ 'a\\tb\\n\\'\\\"\\\\ \\u00e9 \\x41' }}{{ \"it's\" }}", {}),
    ("joined texts", "{{ 'a' 'b' }}{{ ('a', 'b') | join }}{{ ('a', 1) }}{{ ('b',) }}{{ [1, 2] + [3] }}", {}),
    ("json of values", "{{ v | tojson }}", {"v": {"a": [1, 2.0, True, None, "é\n\"\\\u0001/<"],
                                                  "b": {}, "c": []}}),
    ("undefined prints nothing", "[{{ nothing }}][{{ messages[0].nothing }}]", {"messages": CHAT}),
    ("undefined has no member", "{{ nothing.more }}", {}),
    ("no such filter", "{{ 1 | frobnicate }}", {}),
    ("append is refused", "{% set l = [1] %}{{ l.append(2) }}", {}),
    ("number and text", "{{ 1 + 'a' }}", {}),
    ("not called", "{{ 'a'() }}", {}),
    ("division by zero", "{{ 1 // 0 }}", {}),
    ("open tag", "{% if x %}a", {}),
    ("stray end", "a{% endif %}", {}),
    ("bad sign", "{{ a $ b }}", {}),
]


def main():
    out = []
    for name, template, variables in CASES:
        variables = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True,
                     **variables}
        case = {"name": name, "template": template, "variables": variables}
        try:
            case["expected"] = environment.from_string(template).render(**variables)
        except Exception as error:
            case["error"] = type(error).__name__ + ": " + str(error)
        out.append(case)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"jinja2": jinja2.__version__, "cases": out}, file, ensure_ascii=False, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
