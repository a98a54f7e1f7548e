// The sections and items of a form, put in order, changed, taken away and added.

import { memo, useState } from 'react'
import type { Field, Fields, Json, Use } from '../../api/shapes.ts'
import { changed } from '../../generic/changes.ts'
import { FormDialog } from '../../generic/form-dialog.tsx'
import { Ordered } from '../../generic/ordered.tsx'
import { Button } from '../../kit/buttons.tsx'
import { Chooser } from '../../kit/fields.tsx'
import { given, unfit } from '../../shared/components/parameters.ts'
import { useComponentChoices, useParameterFields } from '../../shared/forms/component-choices.ts'
import { aliasesIn, kindOf, type Section } from '../../shared/forms/configuration.ts'
import look from '../../shared/forms/forms.module.css'
import { refusal } from '../../shared/forms/refusals.ts'
import { moved } from '../../shared/positions.ts'
import { labelOf, t } from '../../texts.ts'

/** The fields whose values a condition can name. */
const choosable = (fields: Field[]) => fields.filter(({ type, values }) => values || type === 'boolean')

/** The places for which a component must be offered to stand in a form that makes records. */
const USES: Use[] = ['object_class_standalone_form', 'object_class_create_form']

const nameOf = (item: Fields, fields: Field[]): string => {
  const kind = kindOf(item)
  if (kind === 'text') return `${item.text}`
  if (typeof item.label === 'string' && item.label) return item.label
  if (kind === 'component') return t('forms.component', { name: `${item.component}` })
  const field = fields.find(({ alias }) => alias === item.field)
  return field ? labelOf(field) : `${item.field}`
}

export const Designer = memo(function Designer({
  sections,
  fields,
  onChange,
}: {
  sections: Section[]
  fields: Field[]
  onChange: (sections: Section[]) => void
}) {
  const [edited, setEdited] = useState<{ section: number; item?: number | 'text' } | undefined>()
  const asked = aliasesIn(sections)
  const left = fields.filter(({ alias }) => !asked.includes(alias))
  const put = (n: number, change: Partial<Section>) =>
    onChange(sections.with(n, { ...(sections[n] as Section), ...change }))
  const titleOf = ({ title }: Section) => title || t('forms.untitled')
  const section = edited && sections[edited.section]
  const components = useComponentChoices(USES)
  return (
    <>
      <Ordered
        label={t('forms.sections')}
        items={sections}
        keyOf={(_, n) => `${n}`}
        nameOf={titleOf}
        onMove={(from, to) => onChange(moved(sections, from, to))}
      >
        {(one, n) => (
          <div className={look.block}>
            <div className={look.line}>
              <h3>{titleOf(one)}</h3>
              <Button
                look="quiet"
                icon="pencil"
                aria-label={t('edit-one', { name: titleOf(one) })}
                onPress={() => setEdited({ section: n })}
              />
              <Button
                look="quiet"
                icon="trash-2"
                aria-label={t('remove-one', { name: titleOf(one) })}
                onPress={() => onChange(sections.toSpliced(n, 1))}
              />
            </div>
            {one.when && (
              <p className={look.quiet}>
                {t('forms.when', {
                  field: nameOf({ field: one.when.field }, fields),
                  values: one.when.in.map(String).join(', '),
                })}
              </p>
            )}
            <div className={look.items}>
              <Ordered
                label={t('forms.items', { name: titleOf(one) })}
                items={one.items}
                keyOf={(item, at) => `${item.field ?? at}`}
                nameOf={(item) => nameOf(item, fields)}
                onMove={(from, to) => put(n, { items: moved(one.items, from, to) })}
              >
                {(item, at) => (
                  <div className={look.line}>
                    <span>
                      {nameOf(item, fields)}{' '}
                      <span className={look.quiet}>
                        {kindOf(item) !== 'field' && t(`forms.kind.${kindOf(item) ?? 'text'}`)}
                        {kindOf(item) === 'component' && typeof item.field === 'string' && ', '}
                        {typeof item.field === 'string' && item.field}
                        {item.required === true && `, ${t('flag.required')}`}
                        {item.width === 'half' && `, ${t('forms.half')}`}
                      </span>
                    </span>
                    <Button
                      look="quiet"
                      icon="pencil"
                      aria-label={t('edit-one', { name: nameOf(item, fields) })}
                      onPress={() => setEdited({ section: n, item: at })}
                    />
                    <Button
                      look="quiet"
                      icon="trash-2"
                      aria-label={t('remove-one', { name: nameOf(item, fields) })}
                      onPress={() => put(n, { items: one.items.toSpliced(at, 1) })}
                    />
                  </div>
                )}
              </Ordered>
            </div>
            <div className={look.adding}>
              <Chooser
                isAdding
                name={`add-field-${n}`}
                label={t('record-fields.add')}
                isRequired
                choices={left.map((field) => ({ value: field.alias, text: labelOf(field) }))}
                value={null}
                onChange={(choice) => choice && put(n, { items: [...one.items, { field: `${choice.value}` }] })}
              />
              <Button onPress={() => setEdited({ section: n, item: 'text' })}>{t('forms.add-text')}</Button>
            </div>
            {components.length > 0 && (
              <Chooser
                isAdding
                name={`add-component-${n}`}
                label={t('forms.add-component')}
                isRequired
                choices={components}
                value={null}
                onChange={(choice) => {
                  if (!choice) return
                  put(n, { items: [...one.items, { component: choice.value, label: choice.text }] })
                  setEdited({ section: n, item: one.items.length })
                }}
              />
            )}
          </div>
        )}
      </Ordered>
      <div>
        <Button
          icon="plus"
          onPress={() => onChange([...sections, { title: '', text: '', when: undefined, items: [] }])}
        >
          {t('forms.add-section')}
        </Button>
      </div>
      {edited && section && edited.item === undefined && (
        <SectionDialog
          section={section}
          fields={choosable(fields)}
          onSave={(change) => put(edited.section, change)}
          onDone={() => setEdited(undefined)}
        />
      )}
      {edited && section && edited.item !== undefined && (
        <ItemDialog
          item={edited.item === 'text' ? { text: '' } : (section.items[edited.item] ?? {})}
          title={edited.item === 'text' ? t('forms.add-text') : nameOf(section.items[edited.item] ?? {}, fields)}
          sections={sections.map(titleOf)}
          at={edited.section}
          fields={left}
          known={fields}
          onSave={(item, to) => {
            const items = edited.item === 'text' ? section.items : section.items.toSpliced(Number(edited.item), 1)
            const place = edited.item === 'text' ? items.length : Number(edited.item)
            onChange(
              sections.map((one, n) => {
                if (n === to && n === edited.section) return { ...one, items: items.toSpliced(place, 0, item) }
                if (n === edited.section) return { ...one, items }
                return n === to ? { ...one, items: [...one.items, item] } : one
              }),
            )
          }}
          onDone={() => setEdited(undefined)}
        />
      )}
    </>
  )
})

function useDraft(first: Fields) {
  const [before] = useState(first)
  const [values, setValues] = useState(first)
  return {
    values,
    isChanged: Object.keys(changed(before, values)).length > 0,
    onChange: (alias: string, value: Json) => setValues((now) => ({ ...now, [alias]: value })),
  }
}

function SectionDialog({
  section,
  fields,
  onSave,
  onDone,
}: {
  section: Section
  fields: Field[]
  onSave: (change: Partial<Section>) => void
  onDone: () => void
}) {
  const draft = useDraft({
    title: section.title,
    text: section.text,
    field: section.when?.field ?? null,
    in: (section.when?.in ?? []).map((value) => (typeof value === 'boolean' ? `${value}` : value)),
  })
  const chosen = fields.find(({ alias }) => alias === draft.values.field)
  const isBoolean = chosen?.type === 'boolean'
  const values = isBoolean
    ? [
        { value: 'true', text: t('yes') },
        { value: 'false', text: t('no') },
      ]
    : (chosen?.values ?? [])
  const asked: Field[] = [
    { alias: 'title', type: 'string', required: false, label: t('forms.section.title') },
    { alias: 'text', type: 'text', required: false, label: t('forms.section.text') },
    {
      alias: 'field',
      type: 'enum',
      required: false,
      label: t('forms.section.when'),
      description: t('forms.section.when.hint'),
      values: fields.map((field) => ({ value: field.alias, text: labelOf(field) })),
    },
    ...(chosen ? [{ alias: 'in', type: 'set', required: true, label: t('forms.section.in'), values }] : []),
  ]
  const save = () => {
    const { title, text, field } = draft.values
    const list = (Array.isArray(draft.values.in) ? draft.values.in : []).filter((value) =>
      values.some((one) => one.value === value),
    )
    const when = chosen
      ? { field: `${field}`, in: isBoolean ? list.map((value) => value === 'true') : list }
      : undefined
    onSave({ title: `${title ?? ''}`, text: `${text ?? ''}`, when })
    onDone()
  }
  return (
    <FormDialog
      {...draft}
      title={section.title || t('forms.untitled')}
      fields={asked}
      sections={[]}
      error={undefined}
      isBusy={false}
      submit={t('question.take')}
      onSubmit={save}
      onDone={onDone}
    />
  )
}

function ItemDialog({
  item,
  title,
  sections,
  at,
  fields,
  known,
  onSave,
  onDone,
}: {
  item: Fields
  title: string
  sections: string[]
  at: number
  /** Those that the form does not ask for yet. */
  fields: Field[]
  known: Field[]
  onSave: (item: Fields, section: number) => void
  onDone: () => void
}) {
  const kind = kindOf(item) ?? 'text'
  const draft = useDraft({ ...item, width: item.width ?? 'full', section: at })
  const parameters = useParameterFields(item.component)
  const [error, setError] = useState<unknown>()
  // It may fill in what it fills in already, and what nothing else asks for; it cannot send files.
  const fillable = known.filter(
    (one) => one.type !== 'file' && one.type !== 'document' && (fields.includes(one) || one.alias === item.field),
  )
  const place: Field = {
    alias: 'section',
    type: 'enum',
    required: true,
    label: t('forms.item.section'),
    values: sections.map((text, n) => ({ value: n, text: `${n + 1}. ${text}` })),
  }
  const label: Field = {
    alias: 'label',
    type: 'string',
    required: false,
    label: t('field.label'),
    description: kind === 'field' ? t('forms.item.label.hint') : undefined,
  } as Field
  const width: Field = {
    alias: 'width',
    type: 'enum',
    required: true,
    label: t('forms.item.width'),
    values: [
      { value: 'full', text: t('forms.full') },
      { value: 'half', text: t('forms.half') },
    ],
  }
  const asked: { [kind in ReturnType<typeof kindOf> & string]: Field[] } = {
    text: [{ alias: 'text', type: 'text', required: true, label: t('forms.kind.text') }],
    field: [
      label,
      { alias: 'help', type: 'text', required: false, label: t('question.help') },
      { alias: 'required', type: 'boolean', required: false, label: t('question.required') },
      width,
    ],
    component: [
      label,
      {
        alias: 'field',
        type: 'enum',
        required: false,
        label: t('forms.item.fills'),
        description: t('forms.item.fills.hint'),
        values: fillable.map((one) => ({ value: one.alias, text: labelOf(one) })),
      },
      ...(draft.values.field
        ? ([
            { alias: 'help', type: 'text', required: false, label: t('question.help') },
            { alias: 'required', type: 'boolean', required: false, label: t('question.required') },
          ] as Field[])
        : []),
      ...parameters,
      width,
    ],
  }
  const save = () => {
    const { section, width: wide, parameters: typed, ...rest } = draft.values
    const told = given(typed)
    const wrong = unfit(parameters[0]?.schema ?? [], told)
    if (wrong.length > 0)
      return setError(
        refusal(
          wrong.map((name) => `parameters.${name}`),
          t('forms.item.unfit'),
        ),
      )
    const all: Fields = { ...rest, ...(Object.keys(told).length > 0 && { parameters: told }) }
    const kept = Object.entries(all).filter(([, value]) => value !== '' && value !== null && value !== false)
    if (kind === 'text' && !rest.text) return onDone()
    onSave({ ...Object.fromEntries(kept), ...(wide === 'half' && { width: wide }) }, Number(section))
    onDone()
  }
  return (
    <FormDialog
      {...draft}
      title={title}
      fields={[...asked[kind], ...(sections.length > 1 ? [place] : [])]}
      sections={[]}
      error={error}
      isBusy={false}
      submit={t('question.take')}
      onSubmit={save}
      onDone={onDone}
    />
  )
}
