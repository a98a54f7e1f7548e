// docxtemplater in `bench/documents`: merges a template again and again, each time from the file to a file.
//
//     docxtemplater_merge.js TEMPLATE VALUES OUT COUNT      prints one line: see bench/documents

const fs = require("fs");
const PizZip = require("pizzip");
const Docxtemplater = require("docxtemplater");

const [template, valuesFile, out, count] = process.argv.slice(2);
const { fields, item } = JSON.parse(fs.readFileSync(valuesFile));
const values = { ...fields, item };

function merge() {
    const options = { delimiters: { start: "{{", end: "}}" }, paragraphLoop: true, linebreaks: true };
    const document = new Docxtemplater(new PizZip(fs.readFileSync(template)), options);
    document.render(values);
    fs.writeFileSync(out, document.getZip().generate({ type: "nodebuffer", compression: "DEFLATE" }));
}

merge();
const times = [];
const before = process.cpuUsage();
for (let turn = 0; turn < Number(count); turn++) {
    const started = process.hrtime.bigint();
    merge();
    times.push(Number(process.hrtime.bigint() - started) / 1e6);
}
const used = process.cpuUsage(before);
times.sort((a, b) => a - b);
const peak = /VmHWM:\s*(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1];
console.log([times[times.length >> 1].toFixed(2), ((used.user + used.system) / 1000 / times.length).toFixed(2), (peak / 1024).toFixed(1)].join(","));
