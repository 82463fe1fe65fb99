"""Measures tokenizers on texts: the engine of `tokenmill report`.

    measurement = Measurement([tokenizer])         measure.py: adds up batches of texts
    measurement.add(texts)
    report = make_report({"mine": tokenizer}, measurement.table(), ...)       numbers.py: a frozen dataclass
    as_text.render(report)   as_json.render(report)   as_html.render(report)

All numbers are sums (`sums.py`), so parts of a corpus can be measured anywhere and added up in any order.
"""
