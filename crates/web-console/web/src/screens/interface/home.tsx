// The blocks of the home page for everybody.

import { session } from '../../api/session.ts'
import type { Fields } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { FieldInput } from '../../generic/input.tsx'
import { Ordered } from '../../generic/ordered.tsx'
import { type Block, type HomePage, MOST_ROWS, readHome } from '../../generic/ui-contents.ts'
import { Button } from '../../kit/buttons.tsx'
import { Chooser, Select, TextField } from '../../kit/fields.tsx'
import { Blocks } from '../../shared/blocks.tsx'
import { moved } from '../../shared/positions.ts'
import { useClass } from '../../shared/records/class.ts'
import { t } from '../../texts.ts'
import { Editor } from './editor.tsx'
import look from './interface.module.css'
import { ClassChooser, FilterFields, SelectionFields } from './selection.tsx'

export const COMPONENTS = '/api/custom-components/?is_enabled=true'
export const mayUseComponents = () => session()?.permissions?.custom_component?.list === true

export const HomeEditor = () => (
  <Editor
    component="home"
    understand={readHome}
    components={({ blocks }) => [
      ...new Set(blocks.flatMap((block) => (block.kind === 'component' ? block.component : []))),
    ]}
    form={(content, change) => <Form content={content} onChange={change} />}
    preview={({ blocks }) =>
      blocks.length > 0 ? <Blocks blocks={blocks} /> : <p className={generic.none}>{t('interface.blocks.none')}</p>
    }
  />
)

function Form({ content: { blocks }, onChange }: { content: HomePage; onChange: (content: HomePage) => void }) {
  const set = (next: Block[]) => onChange({ blocks: next })
  const nameOf = (block: Block) => block.title || t(`interface.block.${block.kind}`)
  return (
    <>
      {blocks.length === 0 && <p className={generic.none}>{t('interface.blocks.none')}</p>}
      <Ordered
        label={t('interface.blocks')}
        items={blocks}
        keyOf={(_, n) => `${n}`}
        nameOf={nameOf}
        onMove={(from, to) => set(moved(blocks, from, to))}
      >
        {(block, n) => (
          <div className={look.block}>
            <div className={look.line}>
              <h2>{t(`interface.block.${block.kind}`)}</h2>
              <Button
                look="quiet"
                icon="trash-2"
                aria-label={t('remove-one', { name: nameOf(block) })}
                onPress={() => set(blocks.toSpliced(n, 1))}
              />
            </div>
            <TextField
              name={`blocks.${n}.title`}
              label={t('interface.block.title')}
              value={block.title}
              maxLength={100}
              onChange={(title) => set(blocks.with(n, { ...block, title }))}
            />
            {block.kind === 'component' ? (
              <FieldInput
                field={{ alias: 'parameters', type: 'json', required: false, label: t('interface.parameters') }}
                name={`blocks.${n}.parameters`}
                value={block.parameters ?? null}
                onChange={(parameters) => set(blocks.with(n, { ...block, parameters: objectOf(parameters) }))}
              />
            ) : (
              <OfClass name={`blocks.${n}`} block={block} onChange={(next) => set(blocks.with(n, next))} />
            )}
          </div>
        )}
      </Ordered>
      <section className={generic.section}>
        <ClassChooser
          name="add-count"
          label={t('interface.block.count.add')}
          onChoose={({ alias, name }) =>
            set([...blocks, { kind: 'count', title: `${name}`, class: `${alias}`, filters: '' }])
          }
        />
        <ClassChooser
          name="add-list"
          label={t('interface.block.list.add')}
          onChoose={({ alias, name }) => set([...blocks, { ...LIST, title: `${name}`, class: `${alias}` }])}
        />
        {mayUseComponents() && (
          <Chooser
            key={blocks.length}
            name="add-component"
            label={t('interface.block.component.add')}
            isRequired
            autocomplete={COMPONENTS}
            value={null}
            text=""
            onChange={(choice) =>
              choice && set([...blocks, { kind: 'component', title: '', component: Number(choice.value) }])
            }
          />
        )}
      </section>
    </>
  )
}

const LIST = { kind: 'list' as const, limit: 5, filters: '', ordering: '', columns: [] }

export const objectOf = (value: unknown): Fields | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

type OfRecords = Extract<Block, { class: string }>

function OfClass({ name, block, onChange }: { name: string; block: OfRecords; onChange: (block: OfRecords) => void }) {
  const { openClass, isMissing } = useClass(block.class)
  if (isMissing) return <p className={generic.none}>{t('interface.class.gone', { alias: block.class })}</p>
  if (!openClass) return null
  if (block.kind === 'count') {
    return (
      <>
        <p className={look.quiet}>{openClass.name}</p>
        <FilterFields
          name={`${name}.filters`}
          openClass={openClass}
          filters={block.filters}
          onChange={(filters) => onChange({ ...block, filters })}
        />
      </>
    )
  }
  return (
    <>
      <p className={look.quiet}>{openClass.name}</p>
      <SelectionFields name={name} openClass={openClass} selection={block} onChange={onChange} />
      <Select
        name={`${name}.limit`}
        label={t('interface.rows')}
        isRequired
        value={block.limit}
        choices={[...new Set([3, 5, 10, MOST_ROWS, block.limit])]
          .toSorted((a, b) => a - b)
          .map((value) => ({ value, text: `${value}` }))}
        onChange={(limit) => onChange({ ...block, limit: Number(limit) })}
      />
    </>
  )
}
