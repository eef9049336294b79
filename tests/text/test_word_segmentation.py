from hypothesis import given
from hypothesis import strategies as st

from xling.text.word_segmentation import Segmenter, split_clusters

LETTERS = "กขนมรเแไำะา้่ัិ្កខងមរေမြန်ာနိုငံ人民大学日本語をのーャ"


def cut(segmenter, text):
    return [text[a:b] for a, b in segmenter.word_spans(text)]


@given(st.text(LETTERS, max_size=30))
def test_clusters_are_the_run_and_never_begin_with_what_hangs_on_a_letter(run):
    found = split_clusters(run)
    assert "".join(found) == run
    assert not [part for part in found[1:] if part[0] in "ำะา้่ัិ្ာိုံ်ြーャ"]
    assert not [part for part in found[:-1] if part[-1] in "เแไ"]


def test_letters_with_their_signs_stay_together():
    assert split_clusters("น้ำไทย") == ["น้ำ", "ไท", "ย"]
    assert split_clusters("កម្ពុជា") == ["ក", "ម្ពុ", "ជា"]
    assert split_clusters("မြန်မာ") == ["မြန်", "မာ"]
    assert split_clusters("コーヒー") == ["コー", "ヒー"]


def test_given_words_are_found_whole_and_the_longest_first():
    segmenter = Segmenter([], ["人民", "人民大学", "大学", "日本語", "日本"])
    assert cut(segmenter, "人民大学 日本語, 人民 ABC 大学") == [
        "人民大学", "日本語", ",", "人民", "ABC", "大学",
    ]  # fmt: skip


def test_known_words_win_over_characters_and_leave_names_whole():
    texts = [
        "安格尔去大学",
        "安格尔在日本",
        "我在大学",
        "我去日本",
        "他去大学",
        "他在日本",
        "我去大学",
        "他说话",
    ] * 20
    found = cut(Segmenter(texts, ["大学", "日本"]), "安格尔去大学")
    assert "".join(found) == "安格尔去大学"
    assert found[0].startswith("安格尔"), "a name whose characters only occur together is not cut"
    assert found[-1].endswith("大学")


def test_words_are_learned_from_text_alone():
    words = ["แมว", "หมา", "บ้าน", "น้ำ", "กิน", "เห็น", "รถยนต์", "โรงเรียน", "เด็ก", "ครู", "สวย", "ใหญ่"]
    texts = [
        "".join(words[(i * k + j * j) % len(words)] for j in range(6)) for i in range(200) for k in (1, 5, 7)
    ]
    segmenter = Segmenter(texts)
    ends, right = 0, 0
    for text, (i, k) in zip(texts, ((i, k) for i in range(200) for k in (1, 5, 7)), strict=True):
        parts = [words[(i * k + j * j) % len(words)] for j in range(6)]
        gold = {sum(map(len, parts[:n])) for n in range(1, 7)}
        found = {end for _, end in segmenter.word_spans(text)}
        ends, right = ends + len(found), right + len(found & gold)
    assert right / ends > 0.98
    assert ends > 600 * 2, "something is cut at all"


def test_a_zero_width_space_is_the_end_of_a_word():
    segmenter = Segmenter(["ខ្ញុំស្រឡាញ់អ្នក"] * 50)
    assert cut(segmenter, "ខ្ញុំ\u200bស្រឡាញ់")[:2] == ["ខ្ញុំ", "\u200b"]


def test_words_that_end_in_two_places_are_not_cut():
    """Two cuts of as many listed words: the text does not say which is meant, so there is no border."""
    segmenter = Segmenter([], ["การ", "นำเสนอ", "การนำ", "เสนอ", "สินค้า"])
    assert cut(segmenter, "การนำเสนอสินค้า") == ["การนำเสนอ", "สินค้า"]
    assert cut(segmenter, "การสินค้า") == ["การ", "สินค้า"]


def test_characters_of_a_name_stay_together():
    segmenter = Segmenter([], ["埃", "登", "球星", "哈扎德", "カリ"])
    assert cut(segmenter, "球星埃登") == ["球星", "埃登"]
    assert cut(segmenter, "カリオン") == ["カリオン"]


def test_a_letter_of_an_alphabet_is_no_word():
    segmenter = Segmenter([], ["บริการ", "ใหม่"])
    assert cut(segmenter, "บริการปใหม่") == ["บริการปใหม่"]
