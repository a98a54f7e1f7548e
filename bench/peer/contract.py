"""Makes the contract of `bench/documents`: about 20 pages, 50 fields, and a table of 200 rows.

    contract.py DIRECTORY      writes contract.docx, for Chancery and docxtemplater, contract-docxtpl.docx, and values.json
"""

import json
import pathlib
import sys

import docx

FIELDS, ROWS, CLAUSES = 50, 200, 100
TEXT = (
    "The supplier delivers the goods to the address that the order names, at its own cost and risk, within the time that "
    "was agreed. Goods are taken over when both parties have signed the record of delivery. What is "
    "missing is told at once. "
)


def table(document, rows):
    made = document.add_table(rows=len(rows), cols=len(rows[0]), style="Table Grid")
    for row, texts in zip(made.rows, rows):
        for cell, text in zip(row.cells, texts):
            cell.text = text


def contract(rows):
    document = docx.Document()
    section = document.sections[0]
    section.header.paragraphs[0].text = "Contract with {{field_1}}"
    section.footer.paragraphs[0].text = "Confidential"
    document.add_heading("Contract", 0)
    for clause in range(CLAUSES):
        if clause % 5 == 0:
            document.add_heading(f"Section {clause // 5 + 1}", 1)
        paragraph = document.add_paragraph(f"{clause + 1}. ")
        # Every second clause shows a field, in bold; spelling leaves words in runs of their own.
        if clause % 2 == 0:
            paragraph.add_run("Of ")
            paragraph.add_run("{{field_%d}}" % (clause // 2 + 1)).bold = True
            paragraph.add_run(": ")
        for sentence in TEXT.split(". "):
            paragraph.add_run(sentence + ". ")
    table(document, rows)
    document.add_paragraph("Signed")
    return document


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    head = ("Position", "Text", "Number", "Price")
    cells = ["{{position}}", "{{text}}", "{{number}}", "{{price}}"]
    contract([head, ("{{#item}}" + cells[0], *cells[1:3], cells[3] + "{{/item}}")]).save(directory / "contract.docx")
    of_item = tuple(cell.replace("{{", "{{row.") for cell in cells)
    whole_row = [("{%tr for row in item %}", "", "", ""), of_item, ("{%tr endfor %}", "", "", "")]
    contract([head, *whole_row]).save(directory / "contract-docxtpl.docx")
    values = {f"field_{at}": f"Value of field {at} & more" for at in range(1, FIELDS + 1)}
    items = [
        {"position": f"{at:03}", "text": f"Part {at} of the delivery, painted", "number": str(at * 7 % 90 + 1), "price": f"{at * 13.37:.2f}"}
        for at in range(1, ROWS + 1)
    ]
    (directory / "values.json").write_text(json.dumps({"fields": values, "item": items}))


main()
