// The arrangement of the page of a record.

import { useQuery } from '@tanstack/react-query'
import { Facts } from '../../generic/detail.tsx'
import generic from '../../generic/generic.module.css'
import { FieldInput } from '../../generic/input.tsx'
import { Ordered } from '../../generic/ordered.tsx'
import { pageOf } from '../../generic/shape.ts'
import { type RecordComponent, type RecordPage, readRecord } from '../../generic/ui-contents.ts'
import { useAdded } from '../../kit/added.ts'
import { Button } from '../../kit/buttons.tsx'
import { Chooser } from '../../kit/fields.tsx'
import { moved } from '../../shared/positions.ts'
import type { OpenClass } from '../../shared/records/class.ts'
import { arranged } from '../../shared/records/sections.ts'
import { labelOf, t } from '../../texts.ts'
import { Editor } from './editor.tsx'
import { COMPONENTS, mayUseComponents, objectOf } from './home.tsx'
import look from './interface.module.css'
import { NameField } from './name-field.tsx'

type Section = RecordPage['sections'][number]

export const RecordEditor = ({ openClass }: { openClass: OpenClass }) => (
  <Editor
    component={`record-${openClass.id}`}
    understand={readRecord}
    components={({ summary }) => (summary ? [summary.component] : [])}
    form={(content, change) => (
      <>
        <Sections
          openClass={openClass}
          sections={content.sections}
          onChange={(sections) => change({ ...content, sections })}
        />
        {(mayUseComponents() || content.summary) && (
          <Summary
            openClass={openClass}
            summary={content.summary}
            onChange={(summary) => change({ ...content, summary })}
          />
        )}
      </>
    )}
    preview={(content) => <Preview openClass={openClass} content={content} />}
  />
)

function Sections({
  openClass,
  sections,
  onChange,
}: {
  openClass: OpenClass
  sections: Section[]
  onChange: (sections: Section[]) => void
}) {
  const { fields } = openClass
  const named = new Set(sections.flatMap((section) => section.fields))
  const unplacedFields = fields.filter(({ alias }) => !named.has(alias))
  const nameOf = (alias: string) => {
    const field = fields.find((one) => one.alias === alias)
    return field ? labelOf(field) : alias
  }
  /** Returns an unused title. */
  const free = (n = sections.length + 1): string => {
    const title = t('interface.section', { number: n })
    return sections.some((section) => section.title === title) ? free(n + 1) : title
  }
  const [list, add] = useAdded<HTMLOListElement>(sections.length)
  return (
    <>
      {sections.length === 0 && <p className={generic.none}>{t('interface.records.none')}</p>}
      <Ordered
        listRef={list}
        label={t('interface.sections')}
        items={sections}
        keyOf={(_, n) => `${n}`}
        nameOf={({ title }) => title}
        onMove={(from, to) => onChange(moved(sections, from, to))}
      >
        {(section, n) => {
          const put = (changed: Partial<Section>) => onChange(sections.with(n, { ...section, ...changed }))
          return (
            <div className={look.block}>
              <div className={look.line}>
                <h2>{section.title}</h2>
                <Button
                  look="quiet"
                  icon="trash-2"
                  aria-label={t('remove-one', { name: section.title })}
                  onPress={() => onChange(sections.toSpliced(n, 1))}
                />
              </div>
              <NameField
                name={`sections.${n}.title`}
                label={t('interface.section.title')}
                value={section.title}
                isTaken={(title) => sections.some((one) => one !== section && one.title === title)}
                onChange={(title) => put({ title })}
              />
              <div className={look.items}>
                <Ordered
                  label={t('interface.fields.of', { name: section.title })}
                  items={section.fields}
                  keyOf={(alias) => alias}
                  nameOf={nameOf}
                  onMove={(from, to) => put({ fields: moved(section.fields, from, to) })}
                >
                  {(alias) => (
                    <div className={look.line}>
                      <span>
                        {nameOf(alias)}{' '}
                        {fields.every((field) => field.alias !== alias) && (
                          <span className={look.quiet}>{t('interface.fields.gone')}</span>
                        )}
                      </span>
                      <Button
                        look="quiet"
                        icon="trash-2"
                        aria-label={t('remove-one', { name: nameOf(alias) })}
                        onPress={() => put({ fields: section.fields.filter((one) => one !== alias) })}
                      />
                    </div>
                  )}
                </Ordered>
              </div>
              {unplacedFields.length > 0 && (
                <Chooser
                  key={section.fields.length}
                  name={`sections.${n}.add-field`}
                  label={t('interface.fields.add')}
                  isRequired
                  choices={unplacedFields.map((field) => ({ value: field.alias, text: labelOf(field) }))}
                  value={null}
                  onChange={(choice) => choice && put({ fields: [...section.fields, `${choice.value}`] })}
                />
              )}
            </div>
          )
        }}
      </Ordered>
      <div>
        <Button
          icon="plus"
          onPress={() => {
            add()
            onChange([...sections, { title: free(), fields: [] }])
          }}
        >
          {t('interface.section.add')}
        </Button>
      </div>
    </>
  )
}

function Summary({
  openClass: { fields },
  summary,
  onChange,
}: {
  openClass: OpenClass
  summary: RecordComponent | undefined
  onChange: (summary: RecordComponent | undefined) => void
}) {
  return (
    <section className={generic.section}>
      <Chooser
        name="summary"
        label={t('interface.summary')}
        hint={t('interface.summary.hint')}
        autocomplete={COMPONENTS}
        value={summary?.component ?? null}
        onChange={(choice) => onChange(choice ? { ...summary, component: Number(choice.value) } : undefined)}
      />
      {summary && (
        <FieldInput
          field={{ alias: 'parameters', type: 'json', required: false, label: t('interface.parameters') }}
          name="summary.parameters"
          value={summary.parameters ?? null}
          onChange={(parameters) => onChange({ ...summary, parameters: objectOf(parameters) })}
        />
      )}
      {summary && (
        <FieldInput
          field={{
            alias: 'fields',
            type: 'set',
            required: false,
            label: t('interface.summary.fields'),
            description: t('interface.summary.fields.hint'),
            values: fields.map((field) => ({ value: field.alias, text: labelOf(field) })),
          }}
          name="summary.fields"
          value={summary.fields ?? []}
          onChange={(names) => onChange({ ...summary, fields: Array.isArray(names) ? names.map(String) : [] })}
        />
      )}
    </section>
  )
}

/** The record that was changed last, as it would be arranged. */
function Preview({ openClass, content }: { openClass: OpenClass; content: RecordPage }) {
  const { data } = useQuery(pageOf(openClass.resource, 'ordering=-modified_at&limit=1'))
  const record = data?.results[0]
  if (!data) return null
  if (!record) return <p className={generic.none}>{t('interface.records.nothing')}</p>
  const { sections, hidden } = arranged(openClass.resource, content)
  return (
    <>
      <h3>{openClass.resource.label(record)}</h3>
      <Facts sections={sections} hidden={hidden} instance={record} fields={openClass.fields} />
    </>
  )
}
