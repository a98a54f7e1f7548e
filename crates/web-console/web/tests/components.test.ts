import assert from 'node:assert/strict'
import test from 'node:test'
import { Flood, parseMessage } from '../src/generic/component-messages.ts'
import { valuesOf } from '../src/generic/component-record.ts'
import { interfaceWith, repositoriesIn } from '../src/shared/components/log.ts'
import { invalidParameters, parameterFields, withoutEmpty } from '../src/shared/components/parameters.ts'
import { fieldsIn, sectionsOf } from '../src/shared/forms/configuration.ts'
import { fieldOf, questionsOf } from '../src/shared/forms/questions.ts'

const MIB = 2 ** 20

test('a valid message of a component is accepted', () => {
  assert.deepEqual(parseMessage({ type: 'ready', more: 1 }), { type: 'ready' })
  assert.deepEqual(parseMessage({ type: 'value', value: { a: [1, 'b', null, { c: true }] } }), {
    type: 'value',
    value: { a: [1, 'b', null, { c: true }] },
  })
  assert.deepEqual(parseMessage({ type: 'value', value: null }), { type: 'value', value: null })
  assert.deepEqual(parseMessage({ type: 'errors', errors: ['One', 'Two', 'One'] }), {
    type: 'errors',
    errors: ['One', 'Two'],
  })
  assert.deepEqual(parseMessage({ type: 'errors', errors: [] }), { type: 'errors', errors: [] })
})

test('a height stays within its bounds', () => {
  const height = (given: unknown) => parseMessage({ type: 'height', height: given })
  assert.deepEqual(height(123.4), { type: 'height', height: 124 })
  assert.deepEqual(height(-5), { type: 'height', height: 40 })
  assert.deepEqual(height(1e9), { type: 'height', height: 4000 })
  for (const wrong of ['100', null, undefined, Number.NaN, Number.POSITIVE_INFINITY, [100], 100n])
    assert.equal(height(wrong), undefined)
})

test('everything else is passed over', () => {
  const others = [undefined, null, 'ready', 1, [], ['ready'], {}, { type: 'navigate' }, { type: ['ready'] }, new Map()]
  for (const other of others) assert.equal(parseMessage(other), undefined)
  const errors = (list: unknown) => parseMessage({ type: 'errors', errors: list })
  for (const wrong of ['One', [1], [''], [['One']], Array(101).fill('x'), ['x'.repeat(1001)]])
    assert.equal(errors(wrong), undefined)
})

test('a value is JSON, and no larger than a mebibyte', () => {
  const value = (sent: unknown) => parseMessage({ type: 'value', value: sent })
  assert.ok(value('x'.repeat(MIB - 2)))
  assert.equal(value('x'.repeat(MIB - 1)), undefined)
  assert.equal(value('é'.repeat(MIB / 2)), undefined)
  assert.equal(value({ list: Array(MIB).fill(1) }), undefined)
  assert.equal(value({ ['k'.repeat(MIB)]: 1 }), undefined)
  assert.equal(value(new Array(2 ** 32 - 1)), undefined)
  for (const wrong of [undefined, new Map(), new Date(), new Blob([]), /x/, 1n, Number.NaN, new Uint8Array(4)])
    assert.equal(value(wrong), undefined)
})

test('a value without an end is passed over', () => {
  const endless: { [name: string]: unknown } = {}
  endless.self = [endless, endless]
  assert.equal(parseMessage({ type: 'value', value: endless }), undefined)
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])
  assert.ok(parseMessage({ type: 'value', value: deep(63) }))
  assert.equal(parseMessage({ type: 'value', value: deep(64) }), undefined)
})

test('a value brings no prototype along', () => {
  const message = parseMessage({ type: 'value', value: JSON.parse('{"__proto__": {"polluted": true}, "a": 1}') })
  assert.ok(message?.type === 'value')
  assert.equal(Object.getPrototypeOf(message.value), Object.prototype)
  assert.deepEqual(Object.keys(message.value as object), ['__proto__', 'a'])
  assert.equal((message.value as { polluted?: boolean }).polluted, undefined)
  assert.deepEqual(parseMessage({ type: 'value', value: { a: undefined, b: [undefined] } }), {
    type: 'value',
    value: { b: [null] },
  })
})

test('more than 300 messages in a second, or half a second of work, are too many', () => {
  let now = 0
  const clock = () => now
  const flood = new Flood()
  const handled = (messages: number, work: number) => {
    let count = 0
    for (let n = 0; n < messages; n++) {
      const isAdmitted = flood.admits(() => {
        count += 1
        now += work
      }, clock)
      if (!isAdmitted) break
    }
    return count
  }
  assert.equal(handled(300, 0), 300)
  assert.equal(handled(1, 0), 0)
  now = 1000
  assert.equal(handled(300, 0), 300)
  now = 2000
  // A slider that sends its value, its errors and its height sixty times per second.
  assert.equal(handled(180, 1), 180)
  now = 4000
  assert.equal(handled(300, 20), 26)
})

test('a component gets only the named fields of a record', () => {
  const record = { id: 7, owner: { id: 1 }, created_by: { id: 1 }, _meta: { labels: {} }, net: '1.00', due: null }
  assert.deepEqual(valuesOf(record, ['net', 'due', 'gone']), { net: '1.00', due: null })
  assert.deepEqual(valuesOf(record, ['id', 'owner', 'created_by', '_meta', 'toString', '__proto__']), {})
  assert.deepEqual(valuesOf(record, []), {})
  const [question] = questionsOf({ questions: [{ name: 'a', component: 3, fields: ['net', 'net', 5] }] }) ?? []
  assert.deepEqual(question?.custom?.fields, ['net'])
})

const parameters = [
  { parameter_name: 'zoom', parameter_description: 'How near', parameter_type: 'integer', parameter_limit: 20 },
  { parameter_name: 'style', parameter_type: 'enum', parameter_options: ['plain', 2, { value: 'x', text: 'X' }, null] },
  { parameter_name: 'title', parameter_type: 'string', parameter_limit: 3 },
  { parameter_type: 'string' },
  'nothing',
]

test('parameters are asked for by their types', () => {
  const fields = parameterFields(parameters)
  assert.deepEqual(
    fields.map(({ alias, type, description }) => [alias, type, description]),
    [
      ['zoom', 'integer', 'How near'],
      ['style', 'enum', undefined],
      ['title', 'string', undefined],
    ],
  )
  assert.deepEqual(
    fields[1]?.values?.map(({ text }) => text),
    ['plain', '2', 'X'],
  )
  assert.deepEqual(withoutEmpty({ zoom: null, style: '', title: 'a', big: false }), { title: 'a', big: false })
  assert.deepEqual(invalidParameters(fields, { zoom: 21, title: 'abcd' }), ['zoom', 'title'])
  assert.deepEqual(invalidParameters(fields, { zoom: 'near', style: 'plain' }), ['zoom'])
  assert.deepEqual(invalidParameters(fields, { zoom: 20, title: 'abc' }), [])
  assert.deepEqual(parameterFields(null), [])
})

test('a component asks for a field of a form, and for a question', () => {
  const item = { component: 3, field: 'place', label: 'Where?', parameters: { zoom: 3 } }
  const sections = sectionsOf({ sections: [{ items: [item, { component: 4 }] }] }) ?? []
  const [place] = fieldsIn(sections, [{ alias: 'place', type: 'string', required: true }])
  assert.deepEqual(place?.custom, { component: 3, use: 'object_class_standalone_form', parameters: { zoom: 3 } })
  assert.equal(place?.label, 'Where?')
  const [made] = fieldsIn(sections, [{ alias: 'place', type: 'string', required: true }], 'object_class_create_form')
  assert.equal(made?.custom?.use, 'object_class_create_form')
  const [question] = questionsOf({ questions: [{ name: 'place', component: 3 }] }) ?? []
  assert.ok(question)
  assert.deepEqual(fieldOf(question).custom, { component: 3, use: 'task_template_form', parameters: {} })
})

test('the log contains repositories without components, and uses of components', () => {
  const made = [1, 2, 3, 4].map((id) => ({ object_id: id, object_name: `https://git.example/${id}.git` }))
  const map = { id: 7, name: 'Map', repository: 2, repository_url: 'https://git.example/2.git' }
  assert.deepEqual(
    repositoriesIn([map], made, [{ object_id: 3 }]).map(({ id, address, component }) => [id, address, component?.name]),
    [
      [4, 'https://git.example/4.git', undefined],
      [2, 'https://git.example/2.git', 'Map'],
      [1, 'https://git.example/1.git', undefined],
    ],
  )
  const log = [
    { object_name: 'home', changes: { content: ['1', '2'] } },
    { object_name: 'home', changes: { custom_components: [[], [7]] } },
    { object_name: 'menu', changes: { custom_components: [[7], []] } },
    { object_name: 'menu', changes: { custom_components: [null, [7]] } },
  ]
  assert.deepEqual(interfaceWith(7, log), ['home'])
})
