"""Makes the templates in this folder with python-docx and LibreOffice, and beside each the text that it must become.

    python3 -m venv venv && venv/bin/pip install python-docx && venv/bin/python make.py

Values are those of files.rs. A file is NAME.docx, its text NAME.txt: a line for each paragraph that has text, of the
document first, then of its endnotes, footers, footnotes and headers.
"""

import base64
import copy
import io
import pathlib
import re
import subprocess
import tempfile
import zipfile

import docx
from docx.enum.section import WD_SECTION
from docx.enum.text import WD_BREAK
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Pt, RGBColor

FOLDER = pathlib.Path(__file__).parent
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

ADA = "Ada Lovelace"
ITEMS = [("Lamp", "1,200.50"), ("Desk & chair", "80.00"), ("<Pen>", "0.99")]


# python-docx


def new():
    """An empty document without what its default template has beyond need."""
    document = docx.Document()
    package = document.part.package
    for part in (package, document.part):
        for key, relationship in list(part.rels.items()):
            if relationship.reltype.rsplit("/", 1)[1] in ("thumbnail", "stylesWithEffects", "customXml", "theme", "webSettings"):
                del part.rels[key]
    needed = {"Normal", "Header", "Footer", "Table Grid", "Table Normal", "Heading 1", "List Bullet", "Default Paragraph Font"}
    for style in list(document.styles):
        if style.name not in needed:
            style.element.getparent().remove(style.element)
    latent = document.styles.element.find(qn("w:latentStyles"))
    latent.getparent().remove(latent)
    return document


def split(paragraph, text, sizes=(1, 3, 2)):
    """Runs of different formatting, so that each tag is over several."""
    at = turn = 0
    while at < len(text):
        run = paragraph.add_run(text[at : at + sizes[turn % len(sizes)]])
        run.bold = turn % 2 == 0 or None
        at += sizes[turn % len(sizes)]
        turn += 1
    return paragraph


def table(document, rows):
    made = document.add_table(rows=len(rows), cols=len(rows[0]))
    for row, texts in zip(made.rows, rows):
        for cell, text in zip(row.cells, texts):
            cell.text = text
    return made


def letter():
    document = new()
    document.add_heading("Letter to {{ name | upper }}", 1)
    document.add_paragraph("Dear {{ name }},\tyou live in {{ city }}.")
    document.add_paragraph("Nothing is here.")
    document.add_paragraph("Written {{ today | date “dd MMMM yyyy” }} by {{ owner.full_name }}")
    return document, ["Letter to ADA LOVELACE", "Dear Ada Lovelace,\tyou live in Zürich.", "Nothing is here.", "Written 22 November 2026 by Grace Hopper"]


def split_runs():
    document = new()
    split(document.add_paragraph(), "Dear {{ name }}, of {{city|upper}}")
    split(document.add_paragraph("Total: "), "{{ total | number \"#,##0.00\" }} CHF", (2, 1))
    return document, ["Dear Ada Lovelace, of ZÜRICH", "Total: 1,281.49 CHF"]


def row_loop():
    document = new()
    rows = [("Title", "Price"), ("{{#item}}{{ title }}", "{{ price | number \"#,##0.00\" }}{{/item}}"), ("Total", "{{ total }}")]
    table(document, rows).style = "Table Grid"
    document.add_paragraph("End")
    return document, ["Title", "Price", *(text for item in ITEMS for text in item), "Total", "1281.49", "End"]


def row_loop_of_rows():
    document = new()
    rows = [("Title", "Price"), ("{{#item}}", ""), ("{{ title }}", "{{ city }}"), ("costs", "{{ price }}"), ("", "{{/item}}")]
    table(document, rows)
    prices = ["1200.5", "80", "0.99"]
    return document, ["Title", "Price", *(text for (title, _), price in zip(ITEMS, prices) for text in (title, "Zürich", "costs", price))]


def paragraph_loop():
    document = new()
    for text in ("Before", "{{#item}}", "{{ title }}", "{{?first}}", "the first", "{{/first}}", "{{/item}}", "After"):
        document.add_paragraph(text, style="List Bullet")
    return document, ["Before", "Lamp", "the first", "Desk & chair", "<Pen>", "After"]


def run_loop():
    document = new()
    paragraph = document.add_paragraph("Items: ")
    paragraph.add_run("{{#item}}").italic = True
    paragraph.add_run("{{ title }}").bold = True
    paragraph.add_run("; {{/item}}that is all")
    return document, ["Items: Lamp; Desk & chair; <Pen>; that is all"]


def conditions():
    document = new()
    document.add_paragraph("{{?paid}}Paid{{/paid}}{{?unpaid}}Unpaid{{/unpaid}} by {{ name }}")
    for text in ("{{?unpaid}}", "hidden", "{{/unpaid}}", "{{?owner.full_name}}", "shown", "{{?missing}}", "hidden", "{{/missing}}", "{{/owner.full_name}}"):
        document.add_paragraph(text)
    table(document, [("{{?unpaid}}hidden", "hidden{{/unpaid}}"), ("{{?paid}}shown", "too{{/paid}}")])
    document.add_paragraph("{{ missing | default \"none\" }}{{ missing }}")
    return document, ["Paid by Ada Lovelace", "shown", "shown", "too", "none"]


def headers():
    document = new()
    section = document.sections[0]
    section.header.paragraphs[0].text = "Header of {{ name }}"
    section.footer.paragraphs[0].text = "Footer of {{ city }}"
    section.different_first_page_header_footer = True
    section.first_page_header.paragraphs[0].text = "First page"
    document.add_paragraph("No tag here")
    document.add_section(WD_SECTION.NEW_PAGE).footer.is_linked_to_previous = False
    document.sections[1].footer.paragraphs[0].text = "{{#item}}{{ title }} {{/item}}"
    document.add_paragraph("Second section")
    return document, ["No tag here", "Second section", "Footer of Zürich", "Lamp Desk & chair <Pen> ", "Header of Ada Lovelace", "First page"]


def nested_tables():
    document = new()
    outer = document.add_table(rows=1, cols=2)
    outer.cell(0, 1).text = "beside"
    inner = outer.cell(0, 0).add_table(rows=1, cols=2)
    inner.cell(0, 0).text = "{{#item}}{{ title }}"
    inner.cell(0, 1).text = "{{ price }}{{/item}}"
    return document, ["Lamp", "1200.5", "Desk & chair", "80", "<Pen>", "0.99", "beside"]


def picture():
    document = new()
    document.add_picture(io.BytesIO(PIXEL))
    document.paragraphs[0].runs[0]._r.find(".//" + qn("wp:docPr")).set("descr", "{{ name }} stays")
    document.add_paragraph("Picture of {{ name }}").add_run().add_picture(io.BytesIO(PIXEL))
    return document, ["Picture of Ada Lovelace"]


def controls():
    document = new()
    sdt = '<w:sdt %s><w:sdtPr><w:alias w:val="{{ name }}"/><w:text/></w:sdtPr><w:sdtContent>%s</w:sdtContent></w:sdt>'
    run = "<w:r><w:t>{{ name }}</w:t></w:r>"
    document.add_paragraph("Inline: ")._p.append(parse_xml(sdt % (nsdecls("w"), run)))
    document.element.body.insert(0, parse_xml(sdt % (nsdecls("w"), "<w:p>" + run + "</w:p>")))
    return document, [ADA, "Inline: " + ADA]


def links():
    document = new()
    paragraph = document.add_paragraph("See ")
    reference = document.part.relate_to("https://example.com/{{ name }}", docx.opc.constants.RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    link = OxmlElement("w:hyperlink")
    link.set(qn("r:id"), reference)
    for text in ("the page of {", "{ name }", "}"):
        run = copy.deepcopy(paragraph.add_run(text)._r)
        paragraph._p.remove(paragraph.runs[-1]._r)
        link.append(run)
    paragraph._p.append(link)
    return document, ["See the page of " + ADA]


def tracked():
    document = new()
    paragraph = document.add_paragraph("Dear ")
    ins = '<w:ins %s w:id="7" w:author="A" w:date="2026-01-01T00:00:00Z"><w:r><w:t>{{ na</w:t></w:r></w:ins>'
    delete = '<w:del %s w:id="8" w:author="A" w:date="2026-01-01T00:00:00Z"><w:r><w:delText>{{ old }}</w:delText></w:r></w:del>'
    paragraph._p.append(parse_xml(ins % nsdecls("w")))
    paragraph._p.append(parse_xml(delete % nsdecls("w")))
    paragraph.add_run("me }}!")
    return document, ["Dear Ada Lovelace!"]


def comments_and_breaks():
    document = new()
    paragraph = document.add_paragraph("{{ name }}")
    document.add_comment(paragraph.runs, text="Is {{ name }} right?", author="A", initials="A")
    paragraph.add_run().add_break(WD_BREAK.PAGE)
    paragraph.add_run("{{ address }}").font.color.rgb = RGBColor(255, 0, 0)
    paragraph.runs[-1].font.size = Pt(9)
    return document, ["Ada Lovelace", "Bahnhofstrasse 1", "8001 Zürich\tCH"]


# LibreOffice

FODT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"
 xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"
 office:version="1.3" office:mimetype="application/vnd.oasis.opendocument.text">
<office:font-face-decls><style:font-face style:name="DejaVu" svg:font-family="'DejaVu Sans'"/></office:font-face-decls>
<office:styles><style:style style:name="Standard" style:family="paragraph"/></office:styles>
<office:automatic-styles>
<style:style style:name="B" style:family="text"><style:text-properties fo:font-weight="bold" style:font-name="DejaVu"/></style:style>
<style:style style:name="R" style:family="paragraph"><style:paragraph-properties style:writing-mode="rl-tb"/></style:style>
<style:style style:name="F" style:family="graphic"><style:graphic-properties style:wrap="parallel" fo:border="0.5pt solid #000000"/></style:style>
<style:page-layout style:name="L"><style:page-layout-properties fo:page-width="21cm" fo:page-height="29.7cm"/>
<style:header-style/><style:footer-style/></style:page-layout></office:automatic-styles>
<office:master-styles><style:master-page style:name="Standard" style:page-layout-name="L">%s</style:master-page></office:master-styles>
<office:body><office:text>%s</office:text></office:body></office:document>"""


def p(text, style="Standard"):
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def t(rows):
    cells = lambda row: "".join(f'<table:table-cell office:value-type="string">{cell}</table:table-cell>' for cell in row)
    made = "".join(f"<table:table-row>{cells(row)}</table:table-row>" for row in rows)
    return f'<table:table table:name="T"><table:table-column table:number-columns-repeated="{len(rows[0])}"/>{made}</table:table>'


def bold(text):
    return f'<text:span text:style-name="B">{text}</text:span>'


def frame(text, anchor="paragraph"):
    return (
        f'<draw:frame draw:style-name="F" draw:name="Box" text:anchor-type="{anchor}" svg:width="5cm" svg:height="2cm">'
        f'<draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>'
    )


def note(text, kind="footnote"):
    return f'<text:note text:note-class="{kind}"><text:note-citation>1</text:note-citation><text:note-body>{p(text)}</text:note-body></text:note>'


CHANGES = """<text:tracked-changes><text:changed-region text:id="i"><text:insertion><office:change-info><dc:creator>A</dc:creator>
<dc:date>2026-01-01T00:00:00</dc:date></office:change-info></text:insertion></text:changed-region><text:changed-region text:id="d"><text:deletion>
<office:change-info><dc:creator>A</dc:creator><dc:date>2026-01-01T00:00:00</dc:date></office:change-info><text:p>{{ old }}</text:p></text:deletion>
</text:changed-region></text:tracked-changes>"""

IMAGE = (
    '<draw:frame draw:style-name="F" draw:name="Image" text:anchor-type="as-char" svg:width="1cm" svg:height="1cm"><draw:image><office:binary-data>'
    + base64.b64encode(PIXEL).decode()
    + '</office:binary-data></draw:image><svg:desc>{{ name }} stays</svg:desc></draw:frame>'
)

LINK = '<text:a xlink:type="simple" xlink:href="https://example.com/">{{ name }}</text:a>'
LIST = "<text:list><text:list-item>%s</text:list-item><text:list-item>%s</text:list-item></text:list>"

LIBREOFFICE = {
    "letter": ("", p("Dear {{ name }},<text:tab/>of {{ city }}") + p("Nothing") + p("{{ owner.full_name }}"), ["Dear Ada Lovelace,\tof Zürich", "Nothing", "Grace Hopper"]),
    "split-runs": ("", p("Dear {" + bold("{ na") + "me }" + bold("}, of {{ci") + "ty}}"), ["Dear Ada Lovelace, of Zürich"]),
    "row-loop": (
        "",
        t([(p("Title"), p("Price")), (p("{{#item}}{{ title }}"), p("{{ price }}{{/item}}"))]) + p("End"),
        ["Title", "Price", "Lamp", "1200.5", "Desk & chair", "80", "<Pen>", "0.99", "End"],
    ),
    "row-loop-of-rows": (
        "",
        t([(p("Title"), p("")), (p("{{#item}}"), p("")), (p(bold("{{ ti") + "tle }}"), p("x")), (p("{{/item}}"), p(""))]) + p("End"),
        ["Title", "Lamp", "x", "Desk & chair", "x", "<Pen>", "x", "End"],
    ),
    "empty-table": ("", t([(p("{{#nothing}}{{ title }}"), p("{{ price }}{{/nothing}}"))]) + p("End {{ name }}"), ["End Ada Lovelace"]),
    "paragraph-loop": ("", p("Before") + p("{{#item}}") + p("{{ title }}") + t([(p("{{ price }}"),)]) + p("{{/item}}") + p("After"), ["Before", "Lamp", "1200.5", "Desk & chair", "80", "<Pen>", "0.99", "After"]),
    "cell-loop": ("", t([(p("{{#item}}") + p("{{ title }}") + p("{{/item}}"), p("{{#nothing}}") + p("hidden") + p("{{/nothing}}"))]) + p("End"), ["Lamp", "Desk & chair", "<Pen>", "End"]),
    "headers": (f"<style:header>{p('Header {{ name }}')}</style:header><style:footer>{p('Footer {{ city }}')}</style:footer>", p("No tag") + p("{{ name }}"), ["No tag", ADA, "Footer Zürich", "Header Ada Lovelace"]),
    "notes": ("", p("Body" + note("Foot {{ name }}") + " {{ city }}" + note("End {{ city }}", "endnote")) + p("Other" + note("No tag")), ["Body Zürich", "Other", "End Zürich", "Foot Ada Lovelace", "No tag"]),
    "text-box": ("", p(frame("Box {{ name }}") + "Around {{ city }}") + p("Plain"), None),
    "image": ("", p("Image " + IMAGE + " of {{ name }}"), ["Image  of Ada Lovelace"]),
    "tracked": ("", CHANGES + p('Dear <text:change-start text:change-id="i"/>{{ na<text:change-end text:change-id="i"/>me }}<text:change text:change-id="d"/>!'), ["Dear Ada Lovelace!"]),
    "right-to-left": ("", p("שלום {{ name }} ומ-{{ city }}", "R") + p("سلام {{ city }}", "R"), ["שלום Ada Lovelace ומ-Zürich", "سلام Zürich"]),
    "list-and-link": ("", LIST % (p("{{?paid}}Paid{{/paid}}"), p(LINK + " {{ address }}")), ["Paid", "Ada Lovelace Bahnhofstrasse 1", "8001 Zürich\tCH"]),
}


def steady(path):
    """The same archive each time: its times are not those of its making."""
    parts = [(entry.filename, data) for entry, data in ((entry, zipfile.ZipFile(path).read(entry)) for entry in zipfile.ZipFile(path).infolist())]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


def save(name, lines):
    (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def main():
    for make in (letter, split_runs, row_loop, row_loop_of_rows, paragraph_loop, run_loop, conditions, headers, nested_tables, picture, controls, links, tracked, comments_and_breaks):
        document, lines = make()
        name = "python-docx-" + make.__name__.replace("_", "-")
        document.save(FOLDER / f"{name}.docx")
        steady(FOLDER / f"{name}.docx")
        save(name, lines)
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for name, (master, body, lines) in LIBREOFFICE.items():
            source = pathlib.Path(folder) / f"libreoffice-{name}.fodt"
            source.write_text(FODT % (master, body))
            sources.append(source)
            # A text box comes twice, for new and for old readers.
            save(source.stem, lines if lines is not None else ["Box Ada Lovelace", "Box Ada Lovelace", "Around Zürich", "Plain"])
        subprocess.run(["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", "docx", "--outdir", FOLDER, *sources], check=True)


if __name__ == "__main__":
    main()
